#include "io/aligned_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "dsckpt/limits.h"

namespace dsckpt::io {

Result<AlignedBuffer> AlignedBuffer::Allocate(uint64_t bytes, uint64_t alignment) {
  // Below two huge pages there may be no whole one inside.
  const bool huge = bytes >= 2 * kHugePage;
  alignment = std::max<uint64_t>({alignment, sizeof(void*), huge ? kHugePage : 0});
  void* memory = nullptr;
  if (bytes > kMaxFileBytes ||
      posix_memalign(&memory, alignment, std::max<uint64_t>(bytes, 1)) != 0) {
    return Status(StatusCode::kOutOfMemory, "no memory for " + std::to_string(bytes) + " bytes");
  }
  // Advice only: without huge pages the memory is merely slower to fill.
  if (huge) (void)madvise(memory, bytes, MADV_HUGEPAGE);
  return AlignedBuffer({static_cast<std::byte*>(memory), bytes});
}

AlignedBuffer::~AlignedBuffer() { std::free(bytes_.data()); }

}  // namespace dsckpt::io
