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

int Exchange(const char* a, const char* b) {
  return ::renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
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

/// Whether a call that returned -1 has to be made again.
bool Interrupted(ssize_t result) { return result < 0 && errno == EINTR; }

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
    .mkdir = ::mkdir,
    .exchange = Exchange,
};

std::atomic<const Syscalls*> table{&kReal};

const Syscalls& Raw() { return *table.load(std::memory_order_acquire); }

/// The entry `Call` of the table in use, made again for as long as a signal interrupts it.
template <auto Call, typename... Args>
auto Again(Args... args) {
  auto result = (Raw().*Call)(args...);
  while (Interrupted(result)) result = (Raw().*Call)(args...);
  return result;
}

constexpr Syscalls kUninterrupted = {
    .open = [](const char* path, int flags,
               mode_t mode) { return Again<&Syscalls::open>(path, flags, mode); },
    .close =
        [](int fd) {
          const int result = Raw().close(fd);
          return Interrupted(result) ? 0 : result;
        },
    .pread = [](int fd, void* data, size_t bytes,
                off_t offset) { return Again<&Syscalls::pread>(fd, data, bytes, offset); },
    .pwrite = [](int fd, const void* data, size_t bytes,
                 off_t offset) { return Again<&Syscalls::pwrite>(fd, data, bytes, offset); },
    .fsync = [](int fd) { return Again<&Syscalls::fsync>(fd); },
    .ftruncate = [](int fd, off_t bytes) { return Again<&Syscalls::ftruncate>(fd, bytes); },
    .fallocate = [](int fd, int mode, off_t offset,
                    off_t bytes) { return Again<&Syscalls::fallocate>(fd, mode, offset, bytes); },
    .rename = [](const char* from, const char* to) { return Again<&Syscalls::rename>(from, to); },
    .unlink = [](const char* path) { return Again<&Syscalls::unlink>(path); },
    .mmap = [](void* address, size_t bytes, int protection, int flags, int fd,
               off_t offset) { return Raw().mmap(address, bytes, protection, flags, fd, offset); },
    .ring_init = [](unsigned entries, void* ring,
                    unsigned flags) { return Raw().ring_init(entries, ring, flags); },
    .ring_register = [](void* ring, const void* iovecs,
                        unsigned count) { return Raw().ring_register(ring, iovecs, count); },
    .rename_new = [](const char* from,
                     const char* to) { return Again<&Syscalls::rename_new>(from, to); },
    .mkdir = [](const char* path, mode_t mode) { return Again<&Syscalls::mkdir>(path, mode); },
    .exchange = [](const char* a, const char* b) { return Again<&Syscalls::exchange>(a, b); },
};

}  // namespace

const Syscalls& Sys() { return kUninterrupted; }

const Syscalls* ReplaceSyscalls(const Syscalls* replacement) {
  return table.exchange(replacement, std::memory_order_acq_rel);
}

const Syscalls& RealSyscalls() { return kReal; }

}  // namespace dsckpt::io
