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

/// How the ranks of one group talk while they commit a checkpoint (spec/commit.md, "Coordinators"):
/// a store of small values under keys, each of which is written once. Implementations are a shared
/// directory (JoinSharedDirectory()), MPI (dsckpt/mpi.h), and whatever key/value store a job has
/// already. Tensor data never passes through it.
///
/// Implementations must be thread-safe, because saves are committed on a thread of their own.
class Coordinator {
 public:
  /// The clock of deadlines.
  using Clock = std::chrono::steady_clock;

  virtual ~Coordinator() = default;
  /// Returns this process's rank, from 0 to size() - 1. Rank 0 decides about every checkpoint.
  virtual int rank() const = 0;
  /// Returns the number of ranks in the group.
  virtual int size() const = 0;
  /// Returns an id that all ranks of this group share and that no other group has, earlier groups
  /// on the same path included. It can stand in file names.
  virtual std::string session() const = 0;

  /// Sends `mine` to rank 0. On rank 0 it waits for all ranks and returns their bytes, by rank. On
  /// the other ranks it returns an empty vector without waiting for anybody. All ranks use the same
  /// `key`, each key once.
  /// Errors: kTimedOut when the deadline passes; the message names the ranks that are missing.
  virtual Result<std::vector<std::vector<std::byte>>> Gather(std::string_view key,
                                                             std::span<const std::byte> mine,
                                                             Clock::time_point deadline) = 0;
  /// Returns rank 0's `value` on every rank; the `value` of other ranks is ignored. All ranks use
  /// the same `key`, each key once.
  /// Errors: kTimedOut when the value has not come by the deadline.
  virtual Result<std::vector<std::byte>> Broadcast(std::string_view key,
                                                   std::span<const std::byte> value,
                                                   Clock::time_point deadline) = 0;
};

/// Where and as whom JoinSharedDirectory() joins a group.
struct SharedDirectoryOptions {
  /// A directory that all ranks see. Rank 0 makes it where it is missing. Nothing but this group
  /// may use it at the same time.
  std::string path;
  /// This process's rank.
  int rank = 0;
  /// The number of ranks.
  int size = 1;
  /// A text that is the same on all ranks of one job and different for other jobs, where the
  /// launcher has one: a job id with its restart count. Where it is empty, two jobs that start on
  /// one path at the same moment are told apart by the handshake alone, and may both fail.
  std::string job = {};
  /// How long to wait until all ranks have arrived.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

/// Joins a group that talks through small files in a shared directory. Any POSIX file system with
/// an atomic rename will do, NFS included. The call blocks until all ranks have arrived. Files that
/// earlier groups left behind do no harm.
///
/// Errors: kTimedOut when ranks are missing; kFailedPrecondition when another live group uses the
/// path; kInvalidArgument for a rank that is not in the group; those of the file system.
Result<std::shared_ptr<Coordinator>> JoinSharedDirectory(const SharedDirectoryOptions& options);

/// Returns the coordinator of a group of one rank.
std::shared_ptr<Coordinator> SingleRank();

}  // namespace dsckpt

#endif  // DSCKPT_COORDINATOR_H_
