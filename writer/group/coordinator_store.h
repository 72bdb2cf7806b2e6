#ifndef DSCKPT_WRITER_GROUP_COORDINATOR_STORE_H_
#define DSCKPT_WRITER_GROUP_COORDINATOR_STORE_H_

// Values as files in a shared directory.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/backoff.h"
#include "base/mutex.h"
#include "dsckpt/coordinator.h"
#include "io/lock_file.h"

namespace dsckpt {

/// 16 random hex digits.
std::string RandomHex();

/// "rank 3" or "ranks 1, 2, 5 and 40 more".
std::string RankList(std::span<const int> ranks);

/// Values of one session as files in `directory`, which rank 0 has made: KEY for what is
/// broadcast, KEY.RANK for what is gathered. They are not synced: after a crash of the machine
/// nobody asks for them.
class DirectoryCoordinator final : public Coordinator {
 public:
  DirectoryCoordinator(std::string directory, std::string session, int rank, int size,
                       std::unique_ptr<io::LockFile> lock)
      : directory_(std::move(directory)),
        session_(std::move(session)),
        rank_(rank),
        size_(size),
        lock_(std::move(lock)) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string session() const override { return session_; }
  Result<std::vector<std::vector<std::byte>>> Gather(std::string_view key,
                                                     std::span<const std::byte> mine,
                                                     Clock::time_point deadline) override;
  Result<std::vector<std::byte>> Broadcast(std::string_view key, std::span<const std::byte> value,
                                           Clock::time_point deadline) override;

 private:
  void RemoveStale();

  const std::string directory_, session_;
  const int rank_, size_;
  const std::unique_ptr<io::LockFile> lock_;  // Rank 0: against a second one.
  Mutex mutex_;
  // Rank 0: gathered values that nobody asks for again; broadcast ones, oldest first.
  std::vector<std::string> stale_ DSCKPT_GUARDED_BY(mutex_);
  std::deque<std::string> broadcast_ DSCKPT_GUARDED_BY(mutex_);
};

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_GROUP_COORDINATOR_STORE_H_
