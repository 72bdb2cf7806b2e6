#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/reader/file/samples.h"
#include "tests/support/catch.h"

namespace {

using dsckpt::DType;
using dsckpt::File;
using dsckpt::LoadRequest;
using dsckpt::StatusCode;

dsckpt::Status LoadOne(const File& file, const LoadRequest& request, bool verify = true) {
  dsckpt::LoadOptions options;
  options.verify = verify;
  return file.Load(std::span(&request, 1), options);
}

}  // namespace

TEST_CASE("load fills caller memory with every tensor at once") {
  const RichFile rich;
  for (const bool map : {true, false}) {
    const File file = rich.Open(map);
    std::map<std::string, std::string> out;
    std::vector<LoadRequest> requests;
    for (const auto& [name, item] : rich.state.tensors) {
      out[name] = std::string(item.bytes.size(), '\0');
    }
    out["tied"] = std::string(rich.state.tensors.at("large").bytes.size(), '\0');
    for (auto& [name, bytes] : out) requests.push_back({name, bytes.data(), bytes.size()});
    std::string again(out["planes"].size(), '\0');
    requests.push_back({"planes", again.data(), again.size()});
    REQUIRE(file.Load(requests).ok());
    for (const auto& [name, item] : rich.state.tensors) CHECK(out[name] == item.bytes);
    CHECK(out["tied"] == rich.state.tensors.at("large").bytes);
    CHECK(again == rich.state.tensors.at("planes").bytes);
  }
}

TEST_CASE("load scatters into strided memory") {
  const RichFile rich;
  const File file = rich.Open();
  const int64_t rows = 1450;
  const int64_t columns = 1000;
  // Transposed, and every second element.
  const int64_t strides[] = {2, 2 * rows};
  std::vector<float> out(static_cast<size_t>(2 * rows * columns));
  REQUIRE(LoadOne(file, {"planes", out.data(), out.size() * sizeof(float), strides}).ok());
  const std::string& bytes = rich.state.tensors.at("planes").bytes;
  size_t wrong = 0;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      float expected = 0;
      std::memcpy(&expected, bytes.data() + 4 * (i * columns + j), 4);
      if (out[static_cast<size_t>(2 * i + 2 * rows * j)] != expected) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("load refuses destinations that do not fit") {
  const RichFile rich;
  const File file = rich.Open();
  std::string out(1204, '\0');
  const int64_t one[] = {1};
  const int64_t two[] = {2};
  const int64_t pair[] = {1, 1};
  const int64_t wide[] = {12, 1};
  const LoadRequest refused[] = {
      {"bias", out.data(), 1203},       {"bias", out.data(), 1205},
      {"bias", nullptr, 1204},          {"bias", out.data(), 1204, two},
      {"bias", out.data(), 1204, pair}, {"int4", out.data(), 1204, wide},
      {"bias", out.data(), 1203, one},
  };
  for (const LoadRequest& request : refused) {
    CAPTURE(request.bytes, request.strides.size());
    const dsckpt::Status status = LoadOne(file, request);
    CHECK(status.code() == StatusCode::kInvalidArgument);
    CHECK(status.message().find(request.name) != std::string::npos);
  }
  CHECK(LoadOne(file, {"bias", out.data(), 1204, one}).ok());
  CHECK(LoadOne(file, {"none", out.data(), 4}).code() == StatusCode::kNotFound);
  const int64_t six[] = {6, 1};
  CHECK(LoadOne(file, {"int4", out.data(), 9, six}).ok());
  CHECK(LoadOne(file, {"empty", nullptr, 0}).ok());
  CHECK(file.Load({}).ok());
}

TEST_CASE("C37: load checks sums when asked to, stored sums always") {
  const RichFile rich;
  const File whole = rich.Open();
  for (const char* name : {"bias", "large", "zstd"}) {
    const dsckpt::TensorInfo info = whole.FindTensor(name).value();
    std::string damaged = rich.bytes;
    damaged[info.offset + info.stored_bytes / 2] ^= 16;
    const File file = File::Open(std::make_shared<StringSource>(damaged)).value();
    std::string out(info.raw_bytes, '\0');
    CAPTURE(name);
    const dsckpt::Status status = LoadOne(file, {name, out.data(), out.size()});
    CHECK(status.code() == StatusCode::kCorrupt);
    CHECK(status.message().find(name) != std::string::npos);
    const bool encoded = info.encoding != dsckpt::Encoding::kRaw;
    CHECK(LoadOne(file, {name, out.data(), out.size()}, false).ok() == !encoded);
  }
}

TEST_CASE("load of very many small tensors") {
  constexpr int kCount = 30000;
  std::vector<uint64_t> values(kCount), out(kCount);
  std::vector<std::string> names;
  for (int i = 0; i < kCount; ++i) {
    values[static_cast<size_t>(i)] = static_cast<uint64_t>(i) * 2654435761u;
    names.push_back("layer." + std::to_string(i));
  }
  ShardBuilder builder;
  const auto shard = builder.Build([&](dsckpt::Description& d) {
    const int64_t shape[] = {1};
    for (size_t i = 0; i < kCount; ++i) {
      dsckpt::TensorSource source;
      source.data = &values[i];
      source.dtype = DType::kU64;
      source.shape = shape;
      d.Tensor(dsckpt::Key(names[i]), source);
    }
  });
  TempDir dir;
  WriteWholeFile(dir / "f", shard.value());
  const File file = File::Open(dir / "f").value();
  std::vector<LoadRequest> requests;
  for (size_t i = 0; i < kCount; ++i) requests.push_back({names[i], &out[i], 8});
  REQUIRE(file.Load(requests).ok());
  CHECK(out == values);
}

TEST_CASE("an open file serves many threads") {
  const RichFile rich;
  for (const bool map : {true, false}) {
    const File file = rich.Open(map);
    std::vector<std::thread> threads;
    std::vector<int> failures(8, 0);
    for (int& failure : failures) {
      threads.emplace_back([&] {
        for (const auto& [name, item] : rich.state.tensors) {
          const auto tensor = file.View(name);
          if (!tensor.ok() || Text(tensor->bytes()) != item.bytes) ++failure;
          std::string out(item.bytes.size(), '\0');
          if (!LoadOne(file, {name, out.data(), out.size()}).ok() || out != item.bytes) ++failure;
        }
        if (std::get<int64_t>(file.Attribute("step").value()) != 42) ++failure;
        if (file.ReadObject("loader")->size() != 100000) ++failure;
        std::string row(6000, '\0');
        const dsckpt::Range box[] = {{500, 501}, {0, 3000}};
        if (!file.ReadSlice("large", box, std::as_writable_bytes(std::span(row))).ok() ||
            row != rich.state.tensors.at("large").bytes.substr(500 * 6000, 6000)) {
          ++failure;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(failures == std::vector<int>(8, 0));
  }
}
