// Measures what grows with the number of ranks and pieces, on metadata alone
// (docs/explanation/scaling.md):
//   dsckpt_scale ranks 16384 [DIR]   a manifest of N ranks: reports, merge, write, open, list
//   dsckpt_scale pieces 1024 [DIR]   N tensors in N shards each: `dsckpt merge --dry-run`
// Prints one line of seconds a step. Exits with 1 when an answer is wrong.

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/engine.h"
#include "format/manifest/manifest.h"
#include "io/directory.h"
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
  {
    const auto bytes = format::EncodeManifest(*manifest);
    Must(bytes.status());
    Must(io::WriteSmallFile(checkpoint + "/dsckpt.manifest", *bytes));
    std::printf("  manifest of %.1f MB\n", static_cast<double>(bytes->size()) / 1e6);
  }
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
    std::fprintf(stderr, "usage: dsckpt_scale ranks|pieces N [DIR]\n");
    return 2;
  }
  const std::string parent = argc > 3 ? argv[3] : ".";
  const std::string directory = parent + "/scale-" + std::to_string(getpid());
  fs::create_directories(directory);
  const auto count = static_cast<uint32_t>(std::atoi(argv[2]));
  const int code =
      std::string(argv[1]) == "ranks" ? Ranks(count, directory) : Pieces(count, directory);
  fs::remove_all(directory);
  return code;
}
