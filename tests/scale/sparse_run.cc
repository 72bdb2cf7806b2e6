// Measures what it takes to ask a whole run what happened in it, by indexes alone:
//   dsckpt_sparse_run 154 [DIR]   checkpoints of the shape of Pythia-12B, whose tensor data is a
//   hole
// Prints seconds cold and warm, bytes read, the most descriptors open at a time, and peak memory.
// Exits with 1 when an answer is wrong or when tensor data was read.

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "dsckpt/trajectory.h"
#include "dsckpt/trajectory_events.h"
#include "format/checksum.h"
#include "format/footer/footer.h"
#include "format/header/header.h"
#include "format/index/index.h"
#include "state/description.h"
#include "state/file_layout.h"

namespace {

using namespace dsckpt;
namespace fs = std::filesystem;

constexpr int64_t kLayers = 36, kHidden = 5120, kVocabulary = 50688, kContext = 2048;
constexpr const char* kFrozen = "gpt_neox.layers.7.mlp.dense_h_to_4h.weight";
constexpr int64_t kStride = 1000;

void Must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "dsckpt_sparse_run: %s\n", status.ToString().c_str());
  std::exit(1);
}

/// Its sources have addresses that are never read.
class Model {
 public:
  explicit Model(int64_t step) {
    Add("gpt_neox.embed_in.weight", DType::kF16, {kVocabulary, kHidden});
    Add("embed_out.weight", DType::kF16, {kVocabulary, kHidden});
    AddPair("gpt_neox.final_layer_norm", {kHidden});
    for (int64_t layer = 0; layer < kLayers; ++layer) AddLayer(layer);
    description_.Attribute("step", Value(step));
    Must(description_.status());
  }
  const Description& description() const { return description_; }

 private:
  void Add(const std::string& name, DType dtype, const std::vector<int64_t>& shape) {
    TensorSource source;
    source.data = reinterpret_cast<const void*>(next_);
    source.dtype = dtype;
    source.shape = shape;
    description_.Tensor(Key(name), source);
    next_ += TensorBytes(*FindDType(dtype), shape).value() + 4096;
  }
  void AddPair(const std::string& name, const std::vector<int64_t>& shape) {
    Add(name + ".weight", DType::kF16, shape);
    Add(name + ".bias", DType::kF16, {shape[0]});
  }
  void AddLayer(int64_t layer) {
    const std::string prefix = "gpt_neox.layers." + std::to_string(layer) + ".";
    AddPair(prefix + "input_layernorm", {kHidden});
    AddPair(prefix + "post_attention_layernorm", {kHidden});
    AddPair(prefix + "attention.query_key_value", {3 * kHidden, kHidden});
    AddPair(prefix + "attention.dense", {kHidden, kHidden});
    AddPair(prefix + "mlp.dense_h_to_4h", {4 * kHidden, kHidden});
    AddPair(prefix + "mlp.dense_4h_to_h", {kHidden, 4 * kHidden});
    Add(prefix + "attention.bias", DType::kU8, {1, 1, kContext, kContext});
    Add(prefix + "attention.masked_bias", DType::kI32, {});
    Add(prefix + "attention.rotary_emb.inv_freq", DType::kU16, {16});
  }

  Description description_;
  uintptr_t next_ = uintptr_t{1} << 40;
};

/// The sums of a checkpoint's chunks: as if every weight but one had changed.
void FillSums(format::IndexColumns& columns, uint64_t checkpoint) {
  columns.chunk_sums.clear();
  columns.tensors.stored_chunk_end.assign(columns.tensors.raw_bytes.size(), 0);
  for (uint32_t i = 0; i < columns.tensors.raw_bytes.size(); ++i) {
    const std::string_view name = columns.tensor_names[i];
    const bool weight = name.ends_with(".weight") || name.find(".attention.bias") == name.npos;
    const uint64_t content = weight && name != kFrozen ? checkpoint + 1 : 0;
    const uint64_t chunks = (columns.tensors.raw_bytes[i] + kChunkBytes - 1) / kChunkBytes;
    for (uint64_t chunk = 0; chunk < chunks; ++chunk) {
      columns.chunk_sums.push_back({content * 1'000'003 + i, chunk});
    }
    columns.tensors.chunk_end[i] = static_cast<uint32_t>(columns.chunk_sums.size());
  }
}

/// As of weights in training.
void FillStatistics(format::IndexColumns& columns) {
  format::StatisticsColumns& out = columns.annotations.statistics;
  for (uint32_t i = 0; i < columns.tensors.raw_bytes.size(); ++i) {
    out.tensor.push_back(i);
    for (auto* counts : {&out.nan, &out.inf, &out.zero}) counts->push_back(0);
    out.min.push_back(-1);
    out.max.push_back(1);
    out.sum.push_back(0.5);
    out.sum_squares.push_back(1e-4 * static_cast<double>(columns.tensors.raw_bytes[i]));
  }
}

void WriteAt(int file, uint64_t offset, std::span<const std::byte> bytes) {
  const ssize_t written = pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
  if (written == static_cast<ssize_t>(bytes.size())) return;
  std::perror("dsckpt_sparse_run: pwrite");
  std::exit(1);
}

void WriteShard(const std::string& path, uint64_t checkpoint) {
  const Model model(static_cast<int64_t>(checkpoint) * kStride);
  const auto layout = BuildFileLayout(model.description().data(), true, {{"format", "pt"}});
  Must(layout.status());
  format::IndexColumns columns = layout->columns;
  for (uint32_t i = 0; i < columns.tensors.raw_bytes.size(); ++i) {
    columns.tensors.offset[i] = layout->offset[TensorOrdinal(i)];
    columns.tensors.stored_bytes[i] = columns.tensors.raw_bytes[i];
  }
  FillSums(columns, checkpoint);
  FillStatistics(columns);
  columns.tree = ResolveTree(model.description().data(), *layout);
  columns.attributes = model.description().data().attributes;
  auto index = format::EncodeIndex(columns);
  Must(index.status());
  index->resize((index->size() + 7) / 8 * 8);
  format::Footer footer;
  footer.data_begin = layout->data_begin;
  footer.tail_begin = layout->tail_begin;
  footer.index_offset = layout->appended_begin;
  footer.index_bytes = index->size();
  footer.index_xxh3_64 = format::Hash64(*index);
  footer.file_bytes = footer.index_offset + index->size() + kFooterBytes;
  std::string header = layout->header.region;
  format::PatchSizes(header, layout->tail_begin, footer.file_bytes);
  footer.header_xxh3_64 = format::Hash64(std::as_bytes(std::span(std::as_const(header))));
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  WriteAt(file, 0, std::as_bytes(std::span(std::as_const(header))));
  WriteAt(file, footer.index_offset, *index);
  WriteAt(file, footer.index_offset + index->size(), format::EncodeFooter(footer));
  // Its pages can be dropped once they are on storage.
  if (fsync(file) != 0) std::exit(1);
  close(file);
}

void DropFromCache(const fs::path& directory) {
  for (const auto& entry : fs::directory_iterator(directory)) {
    const int file = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    (void)posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    close(file);
  }
}

/// What this process has read so far, from files and their caches.
uint64_t BytesRead() {
  std::ifstream in("/proc/self/io");
  std::string key;
  uint64_t bytes = 0;
  in >> key >> bytes;
  return bytes;
}

/// The most descriptors that were open while it lived.
class DescriptorWatch {
 public:
  DescriptorWatch() : thread_([this] { Watch(); }) {}
  ~DescriptorWatch() { Stop(); }
  size_t Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return most_;
  }

 private:
  void Watch() {
    while (!stop_) {
      const fs::directory_iterator entries("/proc/self/fd");
      most_ = std::max(most_, static_cast<size_t>(std::distance(begin(entries), end(entries))));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  std::atomic<bool> stop_{false};
  size_t most_ = 0;
  std::thread thread_;
};

bool Ask(const char* what, const std::string& run, uint32_t checkpoints) {
  const uint64_t read_before = BytesRead();
  const auto start = std::chrono::steady_clock::now();
  const auto opened = Trajectory::Open(run);
  Must(opened.status());
  const auto events = FindEvents(*opened, SelectAll(*opened));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const uint64_t read = BytesRead() - read_before;
  std::printf("%-5s %8.3f s   %.1f MB read, %.1f MB of indexes\n", what, seconds,
              static_cast<double>(read) / 1e6, static_cast<double>(opened->index_bytes()) / 1e6);
  const bool right = opened->size() == checkpoints && events.size() == 1 &&
                     events[0].kind == TrajectoryEventKind::kFrozen &&
                     opened->tensor(*events[0].tensor).name == kFrozen;
  if (!right) std::printf("the answer is wrong: %zu events\n", events.size());
  // Small reads behind an index are allowed for.
  const bool lean = read < 2 * opened->index_bytes() + (1 << 20);
  if (!lean) std::printf("more than indexes was read\n");
  return right && lean;
}

int Measure(uint32_t checkpoints, const fs::path& parent, bool keep) {
  const fs::path run = parent / ("sparse-run." + std::to_string(getpid()));
  fs::create_directories(run);
  for (uint32_t i = 0; i < checkpoints; ++i) {
    WriteShard(run / ("step" + std::to_string(i * kStride) + ".dsckpt"), i);
  }
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  DescriptorWatch watch;
  DropFromCache(run);
  bool good = Ask("cold", run, checkpoints);
  good = Ask("warm", run, checkpoints) && good;
  good = Ask("warm", run, checkpoints) && good;
  getrusage(RUSAGE_SELF, &after);
  std::printf("descriptors %zu at most, memory %ld MiB at most (%ld before)\n", watch.Stop(),
              after.ru_maxrss / 1024, before.ru_maxrss / 1024);
  if (keep) {
    std::printf("%s\n", run.c_str());
  } else {
    fs::remove_all(run);
  }
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || std::atoi(argv[1]) < 2) {
    std::fprintf(stderr, "usage: dsckpt_sparse_run CHECKPOINTS [DIRECTORY [keep]]\n");
    return 2;
  }
  return Measure(static_cast<uint32_t>(std::atoi(argv[1])), argc > 2 ? argv[2] : ".", argc > 3);
}
