#include <algorithm>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/checkpoint_writer.h"
#include "dsckpt/engine.h"
#include "dsckpt/file.h"
#include "dsckpt/verify.h"
#include "tests/support/catch.h"
#include "tests/support/reference_statistics.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;

namespace {

/// Tensors of every dtype, from one element to some chunks, in every encoding that it can have.
struct Measured {
  struct Item {
    DType dtype;
    Encoding encoding;
    std::vector<std::byte> bytes;
  };
  std::map<std::string, Item> items;

  Measured() {
    for (const DTypeInfo& dtype : AllDTypes()) {
      const uint64_t chunk = kChunkBytes / dtype.block_bytes;
      Add(dtype, "small", 3, Encoding::kRaw);
      Add(dtype, "odd", 70'001, Encoding::kRaw);
      Add(dtype, "none", 0, Encoding::kRaw);
      Add(dtype, "zstd", 5'001, Encoding::kZstd);
      if (dtype.floating) Add(dtype, "planes", 5'003, Encoding::kBytePlaneZstd);
      if (dtype.code == kF32 || dtype.code == kBF16 || dtype.code == DType::kC128) {
        Add(dtype, "chunks", 2 * chunk + 4'097, Encoding::kRaw);
        Add(dtype, "encoded", chunk + 1, Encoding::kZstd);
      }
    }
  }

  void Add(const DTypeInfo& dtype, const std::string& name, uint64_t blocks, Encoding encoding) {
    std::mt19937 random(static_cast<uint32_t>(items.size()));
    Item item{dtype.code, encoding, std::vector<std::byte>(blocks * dtype.block_bytes)};
    // A third of the words is as good as any for what zstd keeps raw and what it shrinks.
    for (std::byte& byte : item.bytes) byte = static_cast<std::byte>(random() % 3 * 63);
    items.emplace(std::string(dtype.name) + "." + name, std::move(item));
  }

  std::unique_ptr<StateProvider> Provider() const {
    return MakeProvider([this](Description& description) {
      for (const auto& [name, item] : items) {
        const DTypeInfo info = *FindDType(item.dtype);
        const int64_t shape[] = {
            static_cast<int64_t>(item.bytes.size() / info.block_bytes * info.block_elements)};
        const TensorSource source{.data = item.bytes.data(),
                                  .dtype = item.dtype,
                                  .shape = shape,
                                  .encoding = item.encoding};
        description.Tensor(name, source);
        if (name == "F32.chunks") description.Tensor("tied", source);
      }
    });
  }
};

class StringSink final : public Sink {
 public:
  Status Write(std::span<const std::byte> bytes) override {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return Status();
  }
  std::string text;
};

/// Saves one F32 tensor a value and returns the events, in their order.
std::vector<Event> EventsOf(const std::string& path,
                            const std::map<std::string, std::vector<float>>& tensors,
                            bool statistics) {
  std::vector<Event> events;
  std::mutex mutex;
  const auto provider = MakeProvider([&](Description& description) {
    for (const auto& [name, values] : tensors) {
      const int64_t shape[] = {static_cast<int64_t>(values.size())};
      description.Tensor(name, {.data = values.data(), .dtype = kF32, .shape = shape});
    }
  });
  const Status status =
      SaveFile(path, *provider, {.statistics = statistics},
               {.pool_bytes = kMiB, .io = IoBackend::kThreads, .on_event = [&](const Event& event) {
                  const std::lock_guard lock(mutex);
                  if (event.kind == Event::Kind::kNotFinite) events.push_back(event);
                }});
  INFO(status.ToString());
  REQUIRE(status.ok());
  return events;
}

}  // namespace

TEST_CASE("statistics are those of the elements, however a tensor is saved") {
  const TempDir dir;
  const Measured state;
  const auto provider = state.Provider();
  StringSink sink;
  REQUIRE(SaveTo(sink, *provider, {.statistics = true}).ok());
  const std::string path = dir / "file.dsckpt";
  for (const uint64_t window : {4 * kKiB, 12 * kKiB, 16 * kMiB}) {
    for (const int workers : {1, 3}) {
      CAPTURE(window, workers);
      const EngineOptions engine{.pool_bytes = std::max(2 * window, kMiB),
                                 .window_bytes = window,
                                 .workers = workers,
                                 .io = IoBackend::kThreads};
      REQUIRE(SaveFile(path, *provider, {.statistics = true}, engine).ok());
      CHECK(ReadWholeFile(path) == sink.text);
    }
  }
  const auto file = File::Open(path);
  REQUIRE(file.ok());
  for (const auto& [name, item] : state.items) {
    INFO(name);
    const auto statistics = file->Statistics(file->FindTensor(name).value());
    REQUIRE(statistics.has_value() == (FindDType(item.dtype)->block_elements == 1));
    if (!statistics) continue;
    CHECK(BitsOf(*statistics) == BitsOf(ReferenceStatistics(item.dtype, item.bytes)));
  }
  CHECK(BitsOf(file->Statistics(file->FindTensor("tied").value()).value()) ==
        BitsOf(file->Statistics(file->FindTensor("F32.chunks").value()).value()));
  const auto report = Verify(path, {.decode = true});
  REQUIRE(report.ok());
  CHECK(report->ok);
}

TEST_CASE("without the option a file has no statistics, and else the same bytes") {
  const TempDir dir;
  const Measured state;
  const auto provider = state.Provider();
  REQUIRE(SaveFile(dir / "with", *provider, {.statistics = true}).ok());
  REQUIRE(SaveFile(dir / "without", *provider).ok());
  const auto with = File::Open(dir / "with"), without = File::Open(dir / "without");
  REQUIRE(without.ok());
  for (uint32_t i = 0; i < without->tensor_count(); ++i) {
    CHECK_FALSE(without->Statistics(without->tensor(i)));
    CHECK(with->tensor(i).offset == without->tensor(i).offset);
    CHECK(with->Digest(with->tensor(i)) == without->Digest(without->tensor(i)));
  }
  CHECK(without->file_bytes() < with->file_bytes());
}

TEST_CASE("plain safetensors has no place for statistics") {
  const TempDir dir;
  const std::vector<float> values(3);
  const auto provider = MakeProvider([&](Description& description) {
    const int64_t shape[] = {3};
    description.Tensor("t", {.data = values.data(), .dtype = kF32, .shape = shape});
  });
  const Status status = SaveFile(dir / "t.safetensors", *provider,
                                 {.container = Container::kSafetensors, .statistics = true});
  CHECK(status.code() == StatusCode::kUnsupported);
  CHECK(status.message() == "SaveOptions::statistics: plain safetensors has no place for them");
}

TEST_CASE("tensors that are not finite are reported, some by name and the rest by number") {
  const TempDir dir;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  std::map<std::string, std::vector<float>> tensors = {{"fine", {1, 2, 3}}};
  tensors["layers.5.qkv"] = std::vector<float>(1'234'567, 1.0f);
  tensors["layers.5.qkv"][1'000'000] = nan;
  const std::string path = dir / "file";
  CHECK(EventsOf(path, tensors, false).empty());
  const auto one = EventsOf(path, tensors, true);
  REQUIRE(one.size() == 1);
  CHECK(one[0].status.message() == "tensor 'layers.5.qkv': 1 NaN, 0 Inf of 1,234,567 elements");
  CHECK(one[0].status.path() == path);

  for (int i = 10; i < 34; ++i) tensors["bad" + std::to_string(i)] = {inf, -inf, nan};
  const auto many = EventsOf(path, tensors, true);
  REQUIRE(many.size() == 21);
  CHECK(many[0].status.message() == "tensor 'bad10': 1 NaN, 2 Inf of 3 elements");
  CHECK(many[19].status.message() == "tensor 'bad29': 1 NaN, 2 Inf of 3 elements");
  CHECK(many[20].status.message() == "5 more tensors have NaN or Inf: inspect the file");
}

TEST_CASE("a group's checkpoint has the statistics of tensors that are stored whole") {
  const TempDir dir;
  const std::vector<float> values = {1, -2, 0, 5};
  const auto provider = MakeProvider([&](Description& description) {
    const int64_t shape[] = {4};
    const TensorSource source{.data = values.data(), .dtype = kF32, .shape = shape};
    description.Tensor("whole", source);
    const int64_t logical[] = {8};
    const Range box[] = {{4, 8}};
    const Piece piece{.logical_name = "split", .logical_shape = logical, .box = box};
    TensorSource part = source;
    part.pieces = std::span(&piece, 1);
    description.Tensor("part", part);
  });
  const auto engine = Engine::Create({.pool_bytes = kMiB, .io = IoBackend::kThreads});
  const auto writer = CheckpointWriter::Create(
      **engine, {.run_directory = dir / "run", .coordinator = SingleRank()});
  REQUIRE(writer.ok());
  REQUIRE((*writer)->Save(1, *provider, {.name = "c", .file = {.statistics = true}}).ok());
  REQUIRE((*writer)->WaitDurable().ok());

  const auto checkpoint = Checkpoint::Open(dir / "run/c");
  REQUIRE(checkpoint.ok());
  REQUIRE(checkpoint->tensor(1).name == "whole");
  const auto whole = checkpoint->Statistics(1).value();
  REQUIRE(whole.has_value());
  CHECK(BitsOf(*whole) == BitsOf(ReferenceStatistics(kF32, std::as_bytes(std::span(values)))));
  CHECK(whole->sum_squares == 30);
  CHECK_FALSE(checkpoint->Statistics(0).value());
}
