#ifndef DSCKPT_IO_INPUT_FILE_H_
#define DSCKPT_IO_INPUT_FILE_H_

// Files and Sources that are read: at an offset, as a mapping, or many spans in parallel.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "dsckpt/source.h"
#include "dsckpt/status.h"
#include "io/error.h"

namespace dsckpt::io {

class Mapping;

/// An open descriptor of a regular file, closed with its last holder.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int fd() const { return fd_; }
  /// Another descriptor of the same file whose reads go past the page cache, opened at the first
  /// call; -1 where the file system has none. Thread-safe.
  int direct_fd() const;

 private:
  const int fd_;
  mutable std::once_flag direct_opened_;
  mutable int direct_fd_ = -1;
};

/// Of how many files that were given back and then read again a process keeps descriptors, at most
/// two of each, besides those in use: limits of 256 descriptors are common.
inline constexpr size_t kReopenedFiles = 64;

/// A read-only file or Source. Thread-safe.
class InputFile {
 public:
  /// Regular files only (a directory, FIFO or device is kInvalidArgument with its kind).
  static Result<std::shared_ptr<const InputFile>> Open(const std::string& path);
  static std::shared_ptr<const InputFile> Of(std::shared_ptr<const Source> source);
  virtual ~InputFile() = default;

  virtual uint64_t size() const = 0;
  /// Empty for a Source.
  virtual const std::string& path() const = 0;
  /// Fills `out`, resuming short reads; kTruncated with offset, expected and found when the file
  /// ends before.
  virtual Status ReadAt(uint64_t offset, std::span<std::byte> out) const = 0;
  /// Reads [offset, offset + out.size()), past the page cache where the file system allows it; all
  /// three aligned to pages. Returns how much there was before the end of the file.
  virtual Result<uint64_t> ReadDirect(uint64_t offset, std::span<std::byte> out) const = 0;
  /// The descriptor, to be held for as long as it is used; null for a Source and for a file that is
  /// under its path no more.
  virtual std::shared_ptr<const Descriptor> descriptor() const = 0;
  /// Gives the descriptor back, now that the file is mapped: programs hold thousands of files open.
  /// Later reads open the file again, or are of the mapping where another one stands under its
  /// path. Of the files that were opened again, kReopenedFiles stay open. REQUIRES: no other call
  /// at the same time.
  virtual void Release(std::shared_ptr<const Mapping> /*mapping*/) const {}
};

/// A read-only shared mapping of a whole file. Unmapped by the destructor.
class Mapping {
 public:
  /// An error (ENODEV, EACCES, ENOMEM...) or a Source: the caller reads instead.
  static Result<std::shared_ptr<const Mapping>> Map(const InputFile& file);
  ~Mapping();
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit Mapping(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

struct ReadSpan {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

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

#endif  // DSCKPT_IO_INPUT_FILE_H_
