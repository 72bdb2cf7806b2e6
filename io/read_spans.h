#ifndef DSCKPT_IO_READ_SPANS_H_
#define DSCKPT_IO_READ_SPANS_H_

// Many spans of one file, read in parallel and handed to whoever consumes them.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "dsckpt/status.h"
#include "io/input_file.h"
#include "io/read_plan.h"

namespace dsckpt::io {

struct StreamOptions {
  /// 0: one a core, at most 8.
  int threads = 0;
  /// Bytes of one read; spans are gathered into reads of about this size. A span may not exceed it.
  uint64_t read_bytes = 4 * 1024 * 1024;
  /// Reads in flight or being consumed; memory is read_bytes * depth.
  unsigned depth = 16;
  /// Called once with the memory of all reads before the first, and with the same after the last.
  std::function<void(std::span<std::byte> memory)> before = {}, after = {};
  /// Refuse the page cache even where pages are resident (bench of cold reads).
  bool force_direct = false;
};

/// Reads `spans` (ascending, not overlapping, empty ones allowed) and hands each, whole, to
/// `consume(index, bytes)`, on several threads at once and in no order. Neighbouring spans share
/// one read. Where the pages are resident it reads through the page cache, elsewhere with O_DIRECT
/// (which leaves the cache as it is); a Source is read by ReadAt on the threads. The first error,
/// of reading or of a consumer, stops the rest and is returned.
Status ReadSpans(
    const InputFile& file, std::span<const ReadSpan> spans, const StreamOptions& options,
    const std::function<Status(size_t index, std::span<const std::byte> bytes)>& consume);

}  // namespace dsckpt::io

#endif  // DSCKPT_IO_READ_SPANS_H_
