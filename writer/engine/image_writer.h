#ifndef DSCKPT_WRITER_ENGINE_IMAGE_WRITER_H_
#define DSCKPT_WRITER_ENGINE_IMAGE_WRITER_H_

// One window, one write.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dsckpt/limits.h"
#include "io/output_file.h"
#include "io/pool.h"
#include "writer/engine/resources.h"
#include "writer/engine/save_progress.h"

namespace dsckpt {

struct SaveOutputs;

/// A window with bytes for the file.
struct FilledWindow {
  io::WindowPool::Use use;
  io::WindowPool::Window window;
  uint64_t bytes;        // From the window's first on.
  uint64_t file_offset;  // A multiple of a page.
};

/// Queues a filled window as one write of the save's file, padded with zeros to a page, and gives
/// the window back when the write has completed. The save's pending count covers it. Of a save that
/// has stopped nothing is written.
void WriteWindow(SaveOutputs& outputs, SaveProgress& progress, EngineResources& resources,
                 FilledWindow filled);

/// Appends bytes to the file image from a page-aligned offset on, through one window at a time.
/// Used by the append stage and then by commit: never by two threads at once.
class ImageWriter {
 public:
  /// REQUIRES: `offset` is page-aligned.
  ImageWriter(SaveOutputs& outputs, SaveProgress& progress, EngineResources& resources,
              io::WindowPool::Use use, uint64_t offset)
      : outputs_(outputs),
        progress_(progress),
        resources_(resources),
        use_(use),
        position_(offset) {}
  ~ImageWriter();

  /// File offset of the next byte.
  uint64_t position() const { return position_; }
  /// Room for the next bytes, at least one, at most to the end of the window; fill it and call
  /// Advance().
  std::span<std::byte> Room();
  void Advance(uint64_t bytes);
  void Append(std::span<const std::byte> bytes);
  /// Appends zeros up to a multiple of `alignment`.
  void Align(uint64_t alignment);
  /// Queues what is buffered, padded with zeros to a page. Nothing may follow unless position() is
  /// page-aligned.
  void Flush();
  /// Ends the append stage's part: queues the whole pages that are buffered and keeps the rest in
  /// the writer itself, so that a save that waits for its turn to commit holds no window. Commit's
  /// own appends then count as placed windows: nothing but storage holds them back.
  void Park();

 private:
  SaveOutputs& outputs_;
  SaveProgress& progress_;
  EngineResources& resources_;
  io::WindowPool::Use use_;
  uint64_t position_;
  io::WindowPool::Window window_;
  uint64_t used_ = 0;  // In the window; parked bytes come back as its first.
  std::array<std::byte, kPageBytes> parked_;
  uint64_t parked_bytes_ = 0;
};

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_ENGINE_IMAGE_WRITER_H_
