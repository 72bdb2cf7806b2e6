#ifndef DSCKPT_VERIFY_H_
#define DSCKPT_VERIFY_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dsckpt/export.h"
#include "dsckpt/status.h"

namespace DSCKPT_EXPORT dsckpt {

/// One thing wrong with a file.
struct Problem {
  /// The item's name, or a region: "header", "index", "footer", "padding", "file".
  std::string item;
  /// "checksum", "header-mismatch", "padding", "truncated", "trailing-bytes", "structure",
  /// "decode", "unsupported".
  std::string kind;
  /// Byte offset of the chunk or field, from the start of the file.
  uint64_t offset = 0;
  /// What should be there, for a person to read.
  std::string expected;
  /// What is there, for a person to read.
  std::string found;
};

/// How Verify() checks a file.
struct VerifyOptions {
  /// Also decode encoded chunks and check their raw sums.
  bool decode = false;
  /// 0: one a core, at most 8.
  int threads = 0;
  /// Called now and then from one thread at a time.
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress = {};
};

/// What Verify() found.
struct VerifyReport {
  /// Whether nothing is wrong.
  bool ok = false;
  /// How many bytes were read.
  uint64_t checked_bytes = 0;
  /// In file order; at most 1,000, then one "structure" entry that says how many more.
  std::vector<Problem> problems;
};

/// Reads every byte of the file at `path` and checks it against checksums, zero rules and
/// structure. Streams: bounded memory, no mmap, so truncation under it is a problem in the report
/// and not a signal. A plain safetensors file has no checksums: its header and extents are checked.
/// Thread-safe. Errors (no report): the file cannot be opened or read, or is no checkpoint at all;
/// kInvalidArgument when the progress callback throws.
Result<VerifyReport> Verify(const std::string& path, const VerifyOptions& options = {});

/// What VerifyCheckpoint() found in one file.
struct FileVerification {
  /// The path of the file.
  std::string path;
  /// Not OK: the file could not be checked, and `report` is empty.
  Status status = {};
  /// What is wrong with the file.
  VerifyReport report = {};
  /// False for plain safetensors: only its header and its extents could be checked.
  bool has_checksums = true;
  /// How long it took.
  std::chrono::nanoseconds duration{0};
};

/// How VerifyCheckpoint() checks a checkpoint.
struct VerifyCheckpointOptions {
  /// As VerifyOptions::decode and VerifyOptions::threads.
  bool decode = false;
  /// See VerifyOptions::threads.
  int threads = 0;
  /// Called now and then from one thread at a time, with the file that is being read and its bytes.
  std::function<void(const std::string& path, uint64_t done_bytes, uint64_t total_bytes)> progress =
      {};
  /// Called on the calling thread with each entry of the report as soon as it is known.
  std::function<void(const FileVerification&)> on_file = {};
  /// See `on_file`.
  std::function<void(const Status&)> on_problem = {};
  /// Called on the calling thread before each file. When it returns true verification ends
  /// (kCancelled).
  std::function<bool()> cancelled = {};
};

/// What VerifyCheckpoint() found.
struct VerifyCheckpointReport {
  /// Nothing is wrong, and every file could be checked.
  bool ok = false;
  /// Of all files.
  uint64_t checked_bytes = 0;
  /// Every file that could be found, in the order in which the checkpoint names them.
  std::vector<FileVerification> files;
  /// What is wrong beyond single files: a manifest that is broken, a shard that is missing or is
  /// another one than the manifest describes (kIncomplete, kMismatch), elements that no shard holds
  /// (kIncomplete), copies of the same elements that differ (kMismatch), a run without a complete
  /// checkpoint (kIncomplete). The status says the path.
  std::vector<Status> problems;
  /// Entries of checkpoint directories that no manifest names. They do no harm.
  std::vector<std::string> ignored_entries;
};

/// Reads every byte of the files of a checkpoint as Verify() does, and checks that they belong
/// together. Bad content is no error of this call but stands in the report.
///
/// `path`: a checkpoint directory; a run directory, of which all checkpoints are checked, those too
/// that it does not count because they are broken; the directory of a model or its index (.json);
/// or one file.
///
/// Thread-safe. Errors: kCancelled, and kInvalidArgument when a callback throws.
Result<VerifyCheckpointReport> VerifyCheckpoint(const std::string& path,
                                                const VerifyCheckpointOptions& options = {});

}  // namespace dsckpt

#endif  // DSCKPT_VERIFY_H_
