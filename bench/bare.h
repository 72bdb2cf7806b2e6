#ifndef DSCKPT_BENCH_BARE_H_
#define DSCKPT_BENCH_BARE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dsckpt/status.h"

// The least that moving or hashing the bytes takes on this machine, without the library.

namespace dsckpt::bench {

/// Reserves the file, writes `bytes` with O_DIRECT through io_uring and syncs it.
/// REQUIRES: page-aligned, whole pages.
Status BareWrite(const std::string& path, std::span<const std::byte> bytes);

/// The same with one write a piece, each behind the last.
Status BareWriteEach(const std::string& path, std::span<const std::span<const std::byte>> pieces);

/// Reads the file with O_DIRECT through io_uring: to its own place in `out` where that holds the
/// file rounded up to pages, else round and round through a few buffers.
Status BareRead(const std::string& path, std::span<std::byte> out);

/// Copies the files one after another into `to` and syncs it: blocks read and written with O_DIRECT
/// through io_uring, several in flight. REQUIRES: sizes of whole pages, but for the last.
Status BareCopy(const std::vector<std::string>& from, const std::string& to);
/// The same by copy_file_range.
Status BareKernelCopy(const std::vector<std::string>& from, const std::string& to);

/// Seconds to hash `bytes` with XXH3-128, chunk by chunk, on one thread a core, at most 8.
double BareHash(std::span<const std::byte> bytes);

}  // namespace dsckpt::bench

#endif  // DSCKPT_BENCH_BARE_H_
