#ifndef DSCKPT_WRITER_ENGINE_IMAGE_WRITER_H_
#define DSCKPT_WRITER_ENGINE_IMAGE_WRITER_H_

// One window, one write.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dsckpt/limits.h"
#include "io/pool.h"
#include "writer/engine/save_task.h"

namespace dsckpt {

/// Queues the first `bytes` of a filled window (rounded up to a page: zero them first) as one write
/// of the save's file and gives the window back when it completed. The save's pending count covers
/// it. Of a save that has stopped nothing is written.
void WriteWindow(SaveHandle::Job& job, io::WindowPool::Use use, io::WindowPool::Window window,
                 uint64_t bytes, uint64_t file_offset);

/// Appends bytes to the file image from a page-aligned offset on, through one window at a time.
/// Used by the log stage and then by commit: never by two threads at once.
class ImageWriter {
 public:
  /// REQUIRES: `offset` is page-aligned; the job's file exists before the first Append.
  ImageWriter(SaveHandle::Job& job, io::WindowPool::Use use, uint64_t offset)
      : job_(job), use_(use), position_(offset) {}
  ~ImageWriter();

  /// File offset of the next byte.
  uint64_t position() const { return position_; }
  /// Room for the next bytes, at least one, at most to the end of the window; fill it and call
  /// Commit().
  std::span<std::byte> Room();
  void Advance(uint64_t bytes);
  void Append(std::span<const std::byte> bytes);
  /// Appends zeros up to a multiple of `alignment`.
  void Align(uint64_t alignment);
  /// Queues what is buffered, padded with zeros to a page. Nothing may follow unless position() is
  /// page-aligned.
  void Flush();
  /// Ends the log stage's part: queues the whole pages that are buffered and keeps the rest in the
  /// writer itself, so that a save that waits for its turn to commit holds no window. Commit's own
  /// appends then count as raw windows: nothing but storage holds them back.
  void Park();

 private:
  SaveHandle::Job& job_;
  io::WindowPool::Use use_;
  uint64_t position_;
  io::WindowPool::Window window_;
  uint64_t used_ = 0;  // In the window; parked bytes come back as its first.
  std::array<std::byte, kPageBytes> parked_;
  uint64_t parked_bytes_ = 0;
};

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_ENGINE_IMAGE_WRITER_H_
