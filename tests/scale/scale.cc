// Measures what grows with the number of ranks and pieces, on metadata alone
// (docs/explanation/scaling.md):
//   dsckpt_scale ranks 16384 [DIR]   a manifest of N ranks: reports, merge, write, open, list
//   dsckpt_scale pieces 1024 [DIR]   N tensors in N shards each: `dsckpt merge --dry-run`
//   dsckpt_scale manifest 20000000 [DIR [BYTES]]   a manifest of N pieces, in parts of BYTES
// Prints one line of seconds a step. Exits with 1 when an answer is wrong.

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/engine.h"
#include "dsckpt/run_layout.h"
#include "format/manifest/manifest.h"
#include "run/manifest_file.h"
#include "state/description.h"
#include "state/file_layout.h"

namespace {

using namespace dsckpt;
namespace fs = std::filesystem;

constexpr uint32_t kTensorsPerShard = 100;
constexpr uint32_t kSplit = 8;  // ranks that share one tensor

class Steps {
 public:
  void Done(const char* what) {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    std::printf("  %-34s%9.3f s\n", what, seconds);
    total_ += seconds;
    last_ = std::chrono::steady_clock::now();
  }
  void Restart() { last_ = std::chrono::steady_clock::now(); }
  double total() const { return total_; }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  double total_ = 0;
};

void Must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "dsckpt_scale: %s\n", status.ToString().c_str());
  std::exit(1);
}

std::string TensorName(uint32_t stage, uint32_t layer) {
  return "stage." + std::to_string(stage) + ".layer." + std::to_string(layer) + ".weight";
}

/// Ascending in the number.
std::string ManyName(uint32_t tensor) {
  const std::string number = std::to_string(tensor);
  return "layer." + std::string(10 - number.size(), '0') + number + ".weight";
}

double ManifestMegabytes(const std::string& checkpoint, uint32_t parts) {
  uint64_t bytes = fs::file_size(run::ManifestPath(checkpoint));
  for (uint32_t i = 0; i < parts; ++i) {
    bytes += fs::file_size(checkpoint + "/" + ManifestPartName(i));
  }
  return static_cast<double>(bytes) / 1e6;
}

double PeakMegabytes() {
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
}

/// The index columns of one rank: rows of tensors that it shares with the ranks beside it.
format::IndexColumns ShardColumns(uint32_t rank) {
  Description description;
  description.Flat();
  const int64_t shape[] = {4, 16}, whole[] = {4 * kSplit, 16};
  const int64_t part = rank % kSplit;
  const Range box[] = {{4 * part, 4 * part + 4}, {0, 16}};
  for (uint32_t i = 0; i < kTensorsPerShard; ++i) {
    const std::string name = TensorName(rank / kSplit, i);
    const Piece piece{.logical_name = name, .logical_shape = whole, .box = box};
    TensorSource source;
    source.dtype = DType::kF32;
    source.shape = shape;
    source.pieces = std::span(&piece, 1);
    source.read = [](uint64_t, std::span<std::byte>) { return Status(); };
    source.data = reinterpret_cast<const std::byte*>(&description) + i;
    description.Tensor(name, source);
  }
  auto layout = BuildFileLayout(description.data(), true, {{"format", "pt"}});
  Must(layout.status());
  return std::move(layout->columns);
}

int Ranks(uint32_t ranks, const std::string& directory) {
  const std::string checkpoint = directory + "/step-1";
  fs::create_directories(checkpoint);
  // What ranks send: on their own machines, so not counted.
  std::vector<std::vector<std::byte>> reports;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const auto columns = ShardColumns(rank);
    const std::string name = "shard-" + std::to_string(rank) + ".dsckpt";
    auto report =
        format::ManifestOfShard({name, rank, 1 << 20, 1 << 14, rank}, format::ViewOf(columns));
    Must(report.status());
    report->attempt = "scale-1";
    auto encoded = format::EncodeManifest(*report);
    Must(encoded.status());
    reports.push_back(std::move(encoded).value());
  }
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const std::string name = checkpoint + "/shard-" + std::to_string(rank) + ".dsckpt";
    std::ofstream(name).close();
    fs::resize_file(name, 1 << 20);  // Without a byte on the disk.
  }
  Steps steps;
  std::vector<format::ManifestView> parts;
  for (const auto& report : reports) {
    auto part = format::ParseManifest(report);
    Must(part.status());
    parts.push_back(std::move(part).value());
  }
  steps.Done("reports checked");
  auto manifest = format::MergeManifests(parts);
  Must(manifest.status());
  manifest->attempt = "scale-1";
  manifest->step = 1;
  manifest->ranks = ranks;
  steps.Done("reports merged");
  const auto files = run::WriteManifest(checkpoint, *manifest);
  Must(files.status());
  std::printf("  manifest of %.1f MB\n", ManifestMegabytes(checkpoint, *files));
  steps.Done("manifest encoded and written");
  *manifest = {};
  parts = {};
  reports = {};
  steps.Restart();
  {
    const auto opened = Checkpoint::Open(checkpoint);
    Must(opened.status());
    steps.Done("opened");
    const auto tensor = opened->FindTensor(TensorName(ranks / kSplit / 2, 7));
    Must(tensor.status());
    const auto pieces = opened->Pieces(tensor->ordinal);
    steps.Done("one tensor's pieces found");
    if (pieces.size() != kSplit || opened->shard_count() != ranks) return 1;
  }
  const auto run = RunDirectory::Open(directory);
  Must(run.status());
  steps.Done("run listed");
  if (run->checkpoints().size() != 1 || run->checkpoints()[0].shards != ranks) return 1;
  std::printf("%u ranks, %u pieces: %.3f s, peak %.0f MB\n", ranks, ranks * kTensorsPerShard,
              steps.total(), PeakMegabytes());
  return 0;
}

/// Tensors that are cut into rows over as many shards; a multiple of them where `count` is none.
format::ManifestColumns ManyPieces(uint32_t count, uint32_t shards) {
  format::ManifestColumns m;
  m.attempt = "scale-1";
  m.step = 1;
  m.ranks = shards;
  m.dtypes = {{static_cast<uint16_t>(DType::kF32), 32, 1, 4}};
  for (uint32_t s = 0; s < shards; ++s) {
    const std::string number = std::to_string(s);
    m.shard_names.push_back("shard-" + std::string(8 - number.size(), '0') + number);
    m.shard_rank.push_back(s);
    m.shard_file_bytes.push_back(1 << 20);
    m.shard_index_bytes.push_back(1 << 14);
    m.shard_index_xxh3_64.push_back(s);
  }
  format::PieceColumns& p = m.pieces;
  const uint32_t tensors = (count + shards - 1) / shards;
  p.bounds.reserve(size_t{4} * tensors * shards);
  for (uint32_t t = 0; t < tensors; ++t) {
    p.logical_names.Append(ManyName(t));
    p.logical_dims.insert(p.logical_dims.end(), {shards, 16});
    p.logical_dim_end.push_back(2 * (t + 1));
    m.logical_dtype.push_back(0);
    for (uint32_t s = 0; s < shards; ++s) {
      p.tensor.push_back(t);
      p.logical.push_back(t);
      p.element_offset.push_back(0);
      p.form.push_back(0);
      p.bounds.insert(p.bounds.end(), {s, 0, 1, 16});
      p.bounds_end.push_back(static_cast<uint32_t>(p.bounds.size()));
      p.replica_group.push_back(0);
      m.piece_shard.push_back(s);
    }
  }
  return m;
}

int Manifest(uint32_t count, const std::string& directory, uint64_t max_bytes) {
  const uint32_t shards = std::min<uint32_t>(16384, count / 100 + 1);
  Steps steps;
  uint32_t parts = 0;
  const uint32_t tensors = (count + shards - 1) / shards;
  {
    const format::ManifestColumns manifest = ManyPieces(count, shards);
    steps.Done("columns made");
    const auto written = run::WriteManifest(directory, manifest, max_bytes);
    Must(written.status());
    parts = *written;
  }
  steps.Done("encoded and written");
  std::printf("  %u parts, manifest of %.1f MB, peak %.0f MB\n", parts,
              ManifestMegabytes(directory, parts), PeakMegabytes());
  const auto opened = Checkpoint::Open(directory);
  Must(opened.status());
  steps.Done("opened");
  for (const uint32_t t : {0U, tensors / 2, tensors - 1}) {
    const auto tensor = opened->FindTensor(ManyName(t));
    Must(tensor.status());
    const auto pieces = opened->Pieces(tensor->ordinal);
    if (pieces.size() != shards || pieces.back().shard != shards - 1) return 1;
    if (pieces[1].piece.box != std::vector<Range>{{1, 2}, {0, 16}}) return 1;
  }
  steps.Done("three tensors' pieces found");
  if (opened->manifest_parts() != parts || opened->tensor_count() != tensors) return 1;
  std::printf("%u pieces: %.3f s, peak %.0f MB\n", tensors * shards, steps.total(),
              PeakMegabytes());
  return 0;
}

int Pieces(uint32_t count, const std::string& directory) {
  std::vector<std::string> shards;
  const int64_t whole[] = {count}, shape[] = {1};
  const std::vector<float> values(count);
  for (uint32_t rank = 0; rank < count; ++rank) {
    const Range box[] = {{rank, rank + 1}};
    const auto provider = MakeProvider([&](Description& d) {
      for (uint32_t i = 0; i < count; ++i) {
        const std::string name = "t" + std::to_string(i);
        const Piece piece{.logical_name = name, .logical_shape = whole, .box = box};
        TensorSource source;
        source.data = &values[i];
        source.dtype = DType::kF32;
        source.shape = shape;
        source.pieces = std::span(&piece, 1);
        d.Tensor(name, source);
      }
    });
    shards.push_back(directory + "/s" + std::to_string(rank));
    Must(SaveFile(shards.back(), *provider, {},
                  {.pool_bytes = 2 * kMiB, .workers = 1, .io = IoBackend::kThreads}));
  }
  Steps steps;
  std::string command = (fs::read_symlink("/proc/self/exe").parent_path() / "dsckpt").string() +
                        " merge --dry-run -o " + directory + "/out";
  for (const std::string& shard : shards) command += " " + shard;
  if (std::system((command + " > /dev/null").c_str()) != 0) return 1;
  std::printf("%u tensors x %u pieces:\n", count, count);
  steps.Done("dsckpt merge --dry-run");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: dsckpt_scale ranks|pieces|manifest N [DIR [BYTES]]\n");
    return 2;
  }
  const std::string parent = argc > 3 ? argv[3] : ".";
  const std::string directory = parent + "/scale-" + std::to_string(getpid());
  fs::create_directories(directory);
  const auto count = static_cast<uint32_t>(std::atoi(argv[2]));
  const std::string what = argv[1];
  const uint64_t max_bytes = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : kMaxManifestBytes;
  const int code = what == "ranks"      ? Ranks(count, directory)
                   : what == "manifest" ? Manifest(count, directory, max_bytes)
                                        : Pieces(count, directory);
  fs::remove_all(directory);
  return code;
}
