#ifndef DSCKPT_IO_OUTPUT_FILE_H_
#define DSCKPT_IO_OUTPUT_FILE_H_

// A file that is written in large aligned pieces and appears under its name whole or not at all.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "dsckpt/status.h"
#include "io/error.h"
#include "io/queue.h"

namespace dsckpt::io {

/// Whether `name` is that of a temporary which OutputFile, WriteSmallFile() or WriteValueFile() has
/// made: ".dsckpt-<16 hex: hash of the final base name>-<16 hex: random>.tmp". It is short enough
/// for any final name, and tells of which one it is without being opened.
bool IsTemporaryName(std::string_view name);

/// A file that appears under its name whole or not at all: written as a locked temporary in the
/// same directory, then synced, renamed, directory synced.
///
/// Create() removes temporaries of the same name that nobody holds locked. A symbolic link at
/// `path` is followed: the file it names is replaced, the link stays.
class OutputFile {
 public:
  /// Creates the temporary. `direct`: O_DIRECT, or buffered with one warning where the file system
  /// refuses. The mode is that of the file being replaced, else 0666 less the umask.
  static Result<std::unique_ptr<OutputFile>> Create(const std::string& path, bool direct,
                                                    const Warn& warn);
  /// Discards when not published. In a forked child: does nothing.
  ~OutputFile();

  /// Reserves `bytes` so that writes below it do not extend the file (extending O_DIRECT writes are
  /// serialized by the file system) and a full disk shows before data moves. File systems without
  /// fallocate: does nothing.
  Status Reserve(uint64_t bytes);

  /// Queues a write. data, size and offset must be page-aligned. `buffer`: registered buffer index
  /// or -1. An O_DIRECT write refused with EINVAL or EOPNOTSUPP is repeated buffered, as are all
  /// later ones, with one warning. `done` is called once from a queue thread, with a status that
  /// names path, errno, offset and bytes.
  void Write(IoQueue& queue, std::span<const std::byte> data, uint64_t offset, int buffer,
             std::function<void(Status)> done);

  /// After all writes completed: cuts to `exact_bytes`, syncs, closes, renames, syncs the
  /// directory. kDurabilityUnknown: the rename happened, the directory sync failed. Any other
  /// error: nothing under the final name changed and the temporary is gone. fsync is never retried:
  /// after a failure the kernel may have dropped the data.
  Status Publish(uint64_t exact_bytes);

  /// Removes the temporary.
  void Discard();

  const std::string& path() const;

 private:
  struct Impl;
  explicit OutputFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dsckpt::io

#endif  // DSCKPT_IO_OUTPUT_FILE_H_
