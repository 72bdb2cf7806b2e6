#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "bench/bare.h"
#include "bench/bench.h"
#include "bench/measure.h"
#include "bench/tensors.h"
#include "dsckpt/engine.h"
#include "dsckpt/limits.h"
#include "dsckpt/piece.h"
#include "dsckpt/provider.h"

namespace dsckpt::bench {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kShards = 8;
constexpr uint64_t kMemoryLimit = 256 * kMiB;

/// Shard `rank`: its rows of `count` matrices that all ranks share.
Status WriteShard(const std::string& path, int64_t rank, uint32_t count,
                  std::span<const std::byte> bytes) {
  const auto each = static_cast<int64_t>(bytes.size() / count / 4 / 1024);
  const auto provider = MakeProvider([&](Description& d) {
    d.Flat();
    for (uint32_t i = 0; i < count; ++i) {
      const std::string name = "layer." + std::to_string(i) + ".weight";
      const int64_t shape[] = {each, 1024}, whole[] = {each * kShards, 1024};
      const Range box[] = {{rank * each, (rank + 1) * each}, {0, 1024}};
      const Piece piece{.logical_name = name, .logical_shape = whole, .box = box};
      TensorSource source;
      source.data = bytes.data() + static_cast<uint64_t>(i * each) * 4096;
      source.dtype = DType::kF32;
      source.shape = shape;
      source.capture = Capture::kUntilFence;
      source.pieces = std::span(&piece, 1);
      d.Tensor(name, source);
    }
  });
  return SaveFile(path, *provider);
}

/// A control group of 256 MiB for the child, page cache included; false where this process may
/// make none.
class MemoryLimit {
 public:
  MemoryLimit() {
    for (const auto& [root, file] : {std::pair{"/sys/fs/cgroup", "memory.max"},
                                     {"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}}) {
      path_ = fs::path(root) / ("dsckpt-bench-" + std::to_string(getpid()));
      std::error_code error;
      if (!fs::create_directory(path_, error)) continue;
      std::ofstream limit(path_ / file);
      limit << kMemoryLimit << std::endl;
      holds_ = limit.good();
      if (holds_) return;
      fs::remove(path_, error);
    }
  }
  ~MemoryLimit() {
    std::error_code ignored;
    if (holds_) rmdir(path_.c_str());
  }
  bool holds() const { return holds_; }
  void Enter() const {
    if (holds_) std::ofstream(path_ / "cgroup.procs") << getpid() << std::endl;
  }

 private:
  fs::path path_;
  bool holds_ = false;
};

/// Runs the command beside this program; gives the peak of its resident set.
dsckpt::Result<uint64_t> RunMerge(const std::vector<std::string>& shards, const std::string& out,
                                  const MemoryLimit& limit) {
  const std::string tool = (fs::read_symlink("/proc/self/exe").parent_path() / "dsckpt").string();
  std::vector<std::string> words{tool, "merge", "--json", "-o", out};
  words.insert(words.end(), shards.begin(), shards.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    limit.Enter();
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, 1);
    execv(tool.c_str(), argv.data());
    _exit(127);
  }
  int status = 0;
  struct rusage usage {};
  if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0) {
    return dsckpt::Status(StatusCode::kInternal,
                          "'" + tool + " merge' failed: build the command too")
        .WithPath(tool);
  }
  return static_cast<uint64_t>(usage.ru_maxrss) * kKiB;
}

}  // namespace

dsckpt::Result<Results> RunMerge(const Options& options) {
  const uint64_t each = options.bytes / kShards;
  const uint32_t count = std::max<uint32_t>(1, options.tensors / 8);
  std::vector<std::unique_ptr<ScratchFile>> files;
  std::vector<std::string> shards;
  {
    DSCKPT_ASSIGN_OR_RETURN(const Buffer source, Buffer::Allocate(each, true));
    for (int64_t rank = 0; rank < kShards; ++rank) {
      files.push_back(std::make_unique<ScratchFile>(options.dir, "merge-" + std::to_string(rank)));
      shards.push_back(files.back()->path());
      DSCKPT_RETURN_IF_ERROR(WriteShard(shards.back(), rank, count, source.bytes()));
    }
  }
  const ScratchFile out(options.dir, "merge-out");
  const MemoryLimit limit;
  std::vector<double> seconds, ring, kernel;
  uint64_t peak = 0;
  const auto prepare = [&] {
    out.Remove();
    for (const auto& file : files) DSCKPT_RETURN_IF_ERROR(file->DropCache());
    return Status();
  };
  for (int i = 0; i < options.repeat; ++i) {
    for (auto [copy, samples] :
         {std::pair{&BareCopy, &ring}, std::pair{&BareKernelCopy, &kernel}}) {
      DSCKPT_RETURN_IF_ERROR(prepare());
      const Timer timer;
      DSCKPT_RETURN_IF_ERROR(copy(shards, out.path()));
      samples->push_back(timer.seconds());
    }
    DSCKPT_RETURN_IF_ERROR(prepare());
    const Timer timer;
    DSCKPT_ASSIGN_OR_RETURN(const uint64_t resident, RunMerge(shards, out.path(), limit));
    seconds.push_back(timer.seconds());
    peak = std::max(peak, resident);
  }
  return Results{{"merge", each * kShards, count, Median(seconds),
                  std::min(Median(ring), Median(kernel)), peak,
                  limit.holds() ? "in a memory control group of 256 MiB"
                                : "no memory control group could be made: peak resident set"}};
}

}  // namespace dsckpt::bench
