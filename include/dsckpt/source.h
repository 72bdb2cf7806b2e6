#ifndef DSCKPT_SOURCE_H_
#define DSCKPT_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "dsckpt/export.h"
#include "dsckpt/status.h"

namespace DSCKPT_EXPORT dsckpt {

/// Random-access bytes that are no local file: object stores, archives, tests. Implementations must
/// be thread-safe.
class Source {
 public:
  virtual ~Source() = default;
  virtual uint64_t size() const = 0;
  /// Fills all of `out` from `offset`, or fails.
  virtual Status ReadAt(uint64_t offset, std::span<std::byte> out) const = 0;
};

}  // namespace dsckpt

#endif  // DSCKPT_SOURCE_H_
