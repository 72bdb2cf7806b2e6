#ifndef DSCKPT_IO_READ_PLAN_H_
#define DSCKPT_IO_READ_PLAN_H_

// Which reads serve many spans of a file: neighbours share one.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dsckpt/status.h"

namespace dsckpt::io {

/// Bytes that a caller wants.
struct ReadSpan {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

/// One read that serves spans [first_span, last_span).
struct PlannedRead {
  uint64_t begin = 0;       ///< Page-aligned.
  uint64_t end = 0;         ///< Page-aligned: may lie past the end of the file.
  uint64_t needed_end = 0;  ///< Where the last span ends.
  size_t first_span = 0;
  size_t last_span = 0;

  uint64_t bytes() const { return end - begin; }
  uint64_t needed_bytes() const { return needed_end - begin; }
};

/// Gathers neighbours into reads of at most `read_bytes` of needed bytes. A gap above 64 KiB ends a
/// read: skipping less costs more than reading it. kInvalidArgument: spans that descend, overlap or
/// exceed read_bytes. kTruncated: a span beyond `file_bytes`. `path` is for messages.
Result<std::vector<PlannedRead>> PlanReads(std::span<const ReadSpan> spans, uint64_t read_bytes,
                                           uint64_t file_bytes, const std::string& path);

}  // namespace dsckpt::io

#endif  // DSCKPT_IO_READ_PLAN_H_
