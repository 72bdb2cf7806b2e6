#include "io/syscalls.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#if DSCKPT_WITH_URING
#include <liburing.h>
#endif

namespace dsckpt::io {
namespace {

int Open(const char* path, int flags, mode_t mode) { return ::open(path, flags, mode); }
int RenameNew(const char* from, const char* to) {
  return ::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
}

#if DSCKPT_WITH_URING
int RingInit(unsigned entries, void* ring, unsigned flags) {
  return io_uring_queue_init(entries, static_cast<io_uring*>(ring), flags);
}
int RingRegister(void* ring, const void* iovecs, unsigned count) {
  return io_uring_register_buffers(static_cast<io_uring*>(ring), static_cast<const iovec*>(iovecs),
                                   count);
}
#else
int RingInit(unsigned, void*, unsigned) { return -ENOSYS; }
int RingRegister(void*, const void*, unsigned) { return -ENOSYS; }
#endif

constexpr Syscalls kReal = {
    .open = Open,
    .close = ::close,
    .pread = ::pread,
    .pwrite = ::pwrite,
    .fsync = ::fsync,
    .ftruncate = ::ftruncate,
    .fallocate = ::fallocate,
    .rename = ::rename,
    .unlink = ::unlink,
    .mmap = ::mmap,
    .ring_init = RingInit,
    .ring_register = RingRegister,
    .rename_new = RenameNew,
};

std::atomic<const Syscalls*> table{&kReal};

}  // namespace

const Syscalls& Sys() { return *table.load(std::memory_order_acquire); }

const Syscalls* ReplaceSyscalls(const Syscalls* replacement) {
  return table.exchange(replacement, std::memory_order_acq_rel);
}

const Syscalls& RealSyscalls() { return kReal; }

}  // namespace dsckpt::io
