#ifndef DSCKPT_IO_SYSCALLS_H_
#define DSCKPT_IO_SYSCALLS_H_

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>

// The one door between this library and the kernel's file calls, so that tests can make any of them
// fail or record them.

namespace dsckpt::io {

/// Table of the calls that io/ makes. Each entry behaves as the libc function of its name (-1 and
/// errno on failure). Those of Sys() never fail with EINTR, which network and FUSE file systems
/// give for any call: they are made again; but for close(), after which Linux has closed the
/// descriptor whatever it says, so that EINTR counts as success there.
struct Syscalls {
  int (*open)(const char* path, int flags, mode_t mode);
  int (*close)(int fd);
  ssize_t (*pread)(int fd, void* data, size_t bytes, off_t offset);
  ssize_t (*pwrite)(int fd, const void* data, size_t bytes, off_t offset);
  int (*fsync)(int fd);
  int (*ftruncate)(int fd, off_t bytes);
  int (*fallocate)(int fd, int mode, off_t offset, off_t bytes);
  int (*rename)(const char* from, const char* to);
  int (*unlink)(const char* path);
  void* (*mmap)(void* address, size_t bytes, int protection, int flags, int fd, off_t offset);
  /// io_uring_queue_init and io_uring_register_buffers as liburing has them: negative errno on
  /// failure. Opaque ring and iovec.
  int (*ring_init)(unsigned entries, void* ring, unsigned flags);
  int (*ring_register)(void* ring, const void* iovecs, unsigned count);
  /// rename() that fails with EEXIST where `to` stands: renameat2 with RENAME_NOREPLACE.
  int (*rename_new)(const char* from, const char* to);
  int (*mkdir)(const char* path, mode_t mode);
  /// renameat2 with RENAME_EXCHANGE.
  int (*exchange)(const char* a, const char* b);
};

/// The table in use. Never null.
const Syscalls& Sys();
/// Replaces what it calls and returns the one before; `table` must stay live. For tests: not
/// thread-safe against running I/O.
const Syscalls* ReplaceSyscalls(const Syscalls* table);
/// The real calls, EINTR included.
const Syscalls& RealSyscalls();

}  // namespace dsckpt::io

#endif  // DSCKPT_IO_SYSCALLS_H_
