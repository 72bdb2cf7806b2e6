#ifndef DSCKPT_VERIFY_H_
#define DSCKPT_VERIFY_H_

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
  std::string expected;
  std::string found;
};

struct VerifyOptions {
  /// Also decode encoded chunks and check their raw sums.
  bool decode = false;
  /// 0: one a core, at most 8.
  int threads = 0;
  /// Called now and then from one thread at a time.
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress = {};
};

struct VerifyReport {
  bool ok = false;
  uint64_t checked_bytes = 0;
  /// In file order; at most 1,000, then one "structure" entry that says how many more.
  std::vector<Problem> problems;
};

/// Reads every byte of the file at `path` and checks it against checksums, zero rules and
/// structure. Streams: bounded memory, no mmap, so truncation under it is a problem in the report
/// and not a signal. A plain safetensors file has no checksums: its header and extents are checked.
/// Thread-safe. Errors (no report): the file cannot be opened or read, or is no checkpoint at all.
Result<VerifyReport> Verify(const std::string& path, const VerifyOptions& options = {});

}  // namespace dsckpt

#endif  // DSCKPT_VERIFY_H_
