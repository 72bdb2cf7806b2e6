#ifndef DSCKPT_SOURCE_H_
#define DSCKPT_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "dsckpt/export.h"
#include "dsckpt/status.h"

namespace DSCKPT_EXPORT dsckpt {

/// Bytes that can be read at any offset and that are no local file: an object store, an archive, a
/// test. File::Open() reads a checkpoint through it. Several threads of the reader call it at once,
/// so implementations must be thread-safe. The bytes must not change while a File uses them.
class Source {
 public:
  virtual ~Source() = default;
  /// Returns the number of bytes.
  virtual uint64_t size() const = 0;
  /// Fills all of `out` with the bytes from `offset` on, or returns why it cannot; a short read is
  /// an error. The reader asks for nothing beyond size().
  virtual Status ReadAt(uint64_t offset, std::span<std::byte> out) const = 0;
};

}  // namespace dsckpt

#endif  // DSCKPT_SOURCE_H_
