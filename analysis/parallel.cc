#include "analysis/parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/thread.h"

namespace dsckpt::analysis {
namespace {

/// The tiles that are left, and what has become of the others.
class Queue {
 public:
  Queue(const std::vector<Tile>& tiles, const AnalysisOptions& options,
        const std::function<Status(const Tile&, size_t)>& work)
      : tiles_(tiles), options_(options), work_(work) {
    for (const Tile& tile : tiles) total_ += tile.bytes;
  }

  void Run(size_t worker) {
    for (size_t i = next_++; i < tiles_.size(); i = next_++) {
      Status status = work_(tiles_[i], worker);
      MutexLock lock(mutex_);
      if (!status.ok()) {
        next_ = tiles_.size();
        if (i < failed_) error_ = std::move(status);
        failed_ = std::min(failed_, i);
      }
      done_ += tiles_[i].bytes;
      if (options_.progress) options_.progress(done_, total_);
    }
  }
  Status status() {
    MutexLock lock(mutex_);
    return error_;
  }

 private:
  const std::vector<Tile>& tiles_;
  const AnalysisOptions& options_;
  const std::function<Status(const Tile&, size_t)>& work_;
  uint64_t total_ = 0;
  std::atomic<size_t> next_ = 0;
  Mutex mutex_;
  uint64_t done_ DSCKPT_GUARDED_BY(mutex_) = 0;
  size_t failed_ DSCKPT_GUARDED_BY(mutex_) = SIZE_MAX;
  Status error_ DSCKPT_GUARDED_BY(mutex_);
};

}  // namespace

size_t Workers(const AnalysisOptions& options) {
  constexpr unsigned kMost = 8;
  if (options.threads > 0) return static_cast<size_t>(options.threads);
  return std::clamp(std::thread::hardware_concurrency(), 1u, kMost);
}

Status ForEachTile(const std::vector<Tile>& tiles, const AnalysisOptions& options,
                   const std::function<Status(const Tile& tile, size_t worker)>& work) {
  Queue queue(tiles, options, work);
  std::vector<std::thread> threads;
  for (size_t worker = 1; worker < std::min(Workers(options), tiles.size()); ++worker) {
    threads.push_back(StartThread("dsckpt-analysis", [&queue, worker] { queue.Run(worker); }));
  }
  queue.Run(0);
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
  return queue.status();
}

}  // namespace dsckpt::analysis
