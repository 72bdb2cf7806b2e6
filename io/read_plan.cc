#include "io/read_plan.h"

#include "base/align.h"
#include "dsckpt/limits.h"

namespace dsckpt::io {
namespace {

constexpr uint64_t kLargestGap = 64 * kKiB;

Status CheckSpan(const ReadSpan& span, uint64_t previous_end, uint64_t read_bytes,
                 uint64_t file_bytes, const std::string& path) {
  const std::string what =
      std::to_string(span.bytes) + " bytes at offset " + std::to_string(span.offset);
  if (span.bytes > read_bytes) {
    return Status(StatusCode::kInvalidArgument,
                  "cannot read " + what + " in one piece of " + std::to_string(read_bytes));
  }
  if (span.offset < previous_end) {
    return Status(
        StatusCode::kInvalidArgument,
        "cannot read " + what + ": the span before ends at " + std::to_string(previous_end));
  }
  if (span.offset > file_bytes || span.bytes > file_bytes - span.offset) {
    return Status(StatusCode::kTruncated, "'" + path + "' is truncated: expected " + what +
                                              ", but the file ends at " +
                                              std::to_string(file_bytes))
        .WithPath(path)
        .WithOffset(file_bytes);
  }
  return Status();
}

}  // namespace

Result<std::vector<PlannedRead>> PlanReads(std::span<const ReadSpan> spans, uint64_t read_bytes,
                                           uint64_t file_bytes, const std::string& path) {
  std::vector<PlannedRead> reads;
  uint64_t previous_end = 0;
  for (size_t i = 0; i < spans.size(); ++i) {
    const ReadSpan& span = spans[i];
    if (span.bytes != 0) {
      DSCKPT_RETURN_IF_ERROR(CheckSpan(span, previous_end, read_bytes, file_bytes, path));
      previous_end = span.offset + span.bytes;
    }
    const bool empty_read = !reads.empty() && reads.back().needed_end == 0;
    const bool joins = !reads.empty() && (span.bytes == 0 || empty_read ||
                                          (span.offset - reads.back().needed_end <= kLargestGap &&
                                           previous_end - reads.back().begin <= read_bytes));
    if (!joins) reads.push_back({.first_span = i});
    PlannedRead& read = reads.back();
    read.last_span = i + 1;
    if (span.bytes == 0) continue;
    if (read.needed_end == 0) read.begin = RoundDown(span.offset, kPageBytes);
    read.needed_end = previous_end;
    read.end = RoundUp(previous_end, kPageBytes);
  }
  return reads;
}

}  // namespace dsckpt::io
