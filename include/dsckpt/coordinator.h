#ifndef DSCKPT_COORDINATOR_H_
#define DSCKPT_COORDINATOR_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/export.h"
#include "dsckpt/status.h"

namespace DSCKPT_EXPORT dsckpt {

/// How the ranks of one group talk while they commit a checkpoint: a store of small values under
/// keys, all of them written once. Implementations: a shared directory (below), MPI
/// (dsckpt/mpi.h), a key/value store that the job has already. Must be thread-safe: saves are
/// committed on a thread of their own. Nothing here moves tensor data.
class Coordinator {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~Coordinator() = default;
  virtual int rank() const = 0;  ///< 0 is the coordinating rank.
  virtual int size() const = 0;
  /// The same on all ranks of this group, different for any other group, earlier ones on the same
  /// path included. Legal in file names.
  virtual std::string session() const = 0;

  /// Rank 0 gets every rank's bytes, by rank; the others get nothing and do not wait for them. All
  /// ranks name the same `key`, once. kTimedOut names the ranks that are missing.
  virtual Result<std::vector<std::vector<std::byte>>> Gather(std::string_view key,
                                                             std::span<const std::byte> mine,
                                                             Clock::time_point deadline) = 0;
  /// Everybody gets rank 0's bytes. kTimedOut when they do not come.
  virtual Result<std::vector<std::byte>> Broadcast(std::string_view key,
                                                   std::span<const std::byte> value,
                                                   Clock::time_point deadline) = 0;
};

struct SharedDirectoryOptions {
  /// A directory that all ranks see; made by rank 0 where it is missing. Nothing but this group
  /// may use it at the same time.
  std::string path;
  int rank = 0;
  int size = 1;
  /// The same on all ranks of one job and different for others, where the launcher has such a thing
  /// (a job id with its restart count). Empty: two jobs that start on one path at the same moment
  /// are told apart by the handshake alone.
  std::string job = {};
  /// For the handshake.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

/// Coordinates through small files in a shared directory (any POSIX file system with atomic rename;
/// NFS included). Blocks until all ranks have arrived. Left-overs of earlier groups do no harm.
/// Errors: kTimedOut, kFailedPrecondition (another live group uses the path), I/O.
Result<std::shared_ptr<Coordinator>> JoinSharedDirectory(const SharedDirectoryOptions& options);

/// A group of one rank.
std::shared_ptr<Coordinator> SingleRank();

}  // namespace dsckpt

#endif  // DSCKPT_COORDINATOR_H_
