#ifndef DSCKPT_TOOLS_SPILL_H_
#define DSCKPT_TOOLS_SPILL_H_

// Room for decoded tensors beyond memory.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "dsckpt/status.h"

namespace dsckpt::tools {

/// Room for decoded tensors: a mapped file without a name, which the kernel may write out when
/// memory is short, so that decoding a checkpoint larger than memory works. Gone with the process.
class Spill {
 public:
  /// On the file system of `output`, whose room the finished file needs anyway. The room is really
  /// allocated: a full disk is an error here and not a SIGBUS later.
  static Result<std::unique_ptr<Spill>> Create(const std::string& output, uint64_t bytes);
  ~Spill();
  Spill(const Spill&) = delete;
  Spill& operator=(const Spill&) = delete;

  std::byte* data() const { return data_; }

 private:
  Spill(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}
  std::byte* data_;
  size_t bytes_;
};

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_SPILL_H_
