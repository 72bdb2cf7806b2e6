#ifndef DSCKPT_TESTS_SUPPORT_MEMORY_SOURCE_H_
#define DSCKPT_TESTS_SUPPORT_MEMORY_SOURCE_H_

#include <cstring>
#include <string>
#include <utility>

#include "dsckpt/file.h"

/// A Source over bytes in memory.
class MemorySource : public dsckpt::Source {
 public:
  explicit MemorySource(std::string bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_.size(); }
  dsckpt::Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return dsckpt::Status();
  }

 private:
  std::string bytes_;
};

#endif  // DSCKPT_TESTS_SUPPORT_MEMORY_SOURCE_H_
