#ifndef DSCKPT_TESTS_SUPPORT_FAULT_FS_H_
#define DSCKPT_TESTS_SUPPORT_FAULT_FS_H_

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "io/syscalls.h"

/// While it lives, stands between the library and the kernel: makes chosen calls fail, records all
/// of them, and knows what a power cut would lose. Calls are named as in io::Syscalls; those on
/// directories end in "_dir" ("fsync_dir"), opening with O_DIRECT is "open_direct". Ring reads and
/// writes pass by: use the thread backend where they matter. One at a time.
class FaultFs {
 public:
  FaultFs() {
    current_ = this;
    before_ = dsckpt::io::ReplaceSyscalls(&Table());
  }
  ~FaultFs() {
    dsckpt::io::ReplaceSyscalls(before_);
    current_ = nullptr;
    for (const std::string& path : renames_) ::unlink(Kept(path).c_str());
  }
  FaultFs(const FaultFs&) = delete;
  FaultFs& operator=(const FaultFs&) = delete;

  /// The calls after the next `skip` ones of that name fail, `times` of them.
  void Fail(const std::string& call, int error, int skip = 0, int times = 1 << 30) {
    std::lock_guard lock(mutex_);
    faults_[call] = {error, skip, times};
  }
  /// At most so many bytes move in one pread or pwrite.
  void Shorten(size_t bytes) { short_bytes_ = bytes; }
  /// The names of all calls so far, of those in `wanted`, in order.
  std::vector<std::string> Calls(const std::set<std::string>& wanted) {
    std::lock_guard lock(mutex_);
    std::vector<std::string> found;
    for (const std::string& call : calls_) {
      if (wanted.count(call) != 0) found.push_back(call);
    }
    return found;
  }
  int Count(const std::string& call) { return static_cast<int>(Calls({call}).size()); }

  /// What a power cut may do at worst: renames not followed by a sync of their directory are
  /// undone, files created or written since their last sync are empty.
  void PowerCut() {
    std::lock_guard lock(mutex_);
    for (auto it = renames_.rbegin(); it != renames_.rend(); ++it) {
      ::unlink(it->c_str());
      ::rename(Kept(*it).c_str(), it->c_str());
    }
    renames_.clear();
    for (const std::string& path : unsynced_) {
      if (::truncate(path.c_str(), 0) != 0) continue;  // Gone: nothing to lose.
    }
    unsynced_.clear();
  }

 private:
  struct Fault {
    int error = 0;
    int skip = 0;
    int times = 0;
  };
  struct Opened {
    std::string path;
    bool directory = false;
  };

  /// Records the call; the error that it is to fail with, or 0.
  int Enter(const std::string& call) {
    std::lock_guard lock(mutex_);
    calls_.push_back(call);
    auto it = faults_.find(call);
    if (it == faults_.end() || it->second.skip-- > 0 || it->second.times-- <= 0) return 0;
    return it->second.error;
  }
  static int Fails(const std::string& call) {
    errno = current_->Enter(call);
    return errno != 0 ? -1 : 0;
  }
  Opened Find(int fd) {
    std::lock_guard lock(mutex_);
    return opened_[fd];
  }
  static std::string On(const std::string& call, int fd) {
    return current_->Find(fd).directory ? call + "_dir" : call;
  }
  /// Holds the file that a rename replaced, until the directory is synced.
  static std::string Kept(const std::string& path) { return path + ".kept"; }

  static int Open(const char* path, int flags, mode_t mode) {
    const bool directory = (flags & O_DIRECTORY) != 0;
    if (Fails(directory ? "open_dir" : (flags & O_DIRECT) != 0 ? "open_direct" : "open")) return -1;
    const int fd = ::open(path, flags, mode);
    if (fd < 0) return fd;
    std::lock_guard lock(current_->mutex_);
    current_->opened_[fd] = {path, directory};
    if ((flags & O_CREAT) != 0) current_->unsynced_.insert(path);
    return fd;
  }
  static int Close(int fd) {
    const std::string call = On("close", fd);
    ::close(fd);
    return Fails(call);
  }
  static ssize_t Pread(int fd, void* data, size_t bytes, off_t offset) {
    if (Fails("pread")) return -1;
    return ::pread(fd, data, std::min(bytes, current_->short_bytes_), offset);
  }
  static ssize_t Pwrite(int fd, const void* data, size_t bytes, off_t offset) {
    if (Fails("pwrite")) return -1;
    {
      std::lock_guard lock(current_->mutex_);
      current_->unsynced_.insert(current_->opened_[fd].path);
    }
    return ::pwrite(fd, data, std::min(bytes, current_->short_bytes_), offset);
  }
  static int Fsync(int fd) {
    if (Fails(On("fsync", fd))) return -1;
    if (::fsync(fd) != 0) return -1;
    std::lock_guard lock(current_->mutex_);
    const Opened& opened = current_->opened_[fd];
    if (!opened.directory) current_->unsynced_.erase(opened.path);
    auto synced = [&](const std::string& path) {
      if (path.substr(0, path.rfind('/')) != opened.path) return false;
      ::unlink(Kept(path).c_str());
      return true;
    };
    if (opened.directory) std::erase_if(current_->renames_, synced);
    return 0;
  }
  static int Ftruncate(int fd, off_t bytes) {
    return Fails("ftruncate") ? -1 : ::ftruncate(fd, bytes);
  }
  static int Fallocate(int fd, int mode, off_t offset, off_t bytes) {
    return Fails("fallocate") ? -1 : ::fallocate(fd, mode, offset, bytes);
  }
  static int Rename(const char* from, const char* to) {
    if (Fails("rename")) return -1;
    static_cast<void>(::link(to, Kept(to).c_str()) == 0);  // Fails where nothing is replaced.
    if (::rename(from, to) != 0) return -1;
    std::lock_guard lock(current_->mutex_);
    current_->renames_.push_back(to);
    if (current_->unsynced_.erase(from) != 0) current_->unsynced_.insert(to);
    return 0;
  }
  static int Unlink(const char* path) { return Fails("unlink") ? -1 : ::unlink(path); }
  static void* Mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) {
    if (Fails("mmap")) return reinterpret_cast<void*>(-1);
    return dsckpt::io::RealSyscalls().mmap(address, bytes, protection, flags, fd, offset);
  }
  static int RingInit(unsigned entries, void* ring, unsigned flags) {
    const int error = current_->Enter("ring_init");
    return error != 0 ? -error : dsckpt::io::RealSyscalls().ring_init(entries, ring, flags);
  }
  static int RingRegister(void* ring, const void* iovecs, unsigned count) {
    const int error = current_->Enter("ring_register");
    return error != 0 ? -error : dsckpt::io::RealSyscalls().ring_register(ring, iovecs, count);
  }
  static int RenameNew(const char* from, const char* to) {
    if (Fails("rename_new")) return -1;
    return dsckpt::io::RealSyscalls().rename_new(from, to);
  }
  static int Exchange(const char* a, const char* b) {
    return Fails("exchange") ? -1 : dsckpt::io::RealSyscalls().exchange(a, b);
  }
  static int Mkdir(const char* path, mode_t mode) {
    return Fails("mkdir") ? -1 : ::mkdir(path, mode);
  }
  static const dsckpt::io::Syscalls& Table() {
    static const dsckpt::io::Syscalls table = {
        Open,   Close, Pread,    Pwrite,       Fsync,     Ftruncate, Fallocate, Rename,
        Unlink, Mmap,  RingInit, RingRegister, RenameNew, Mkdir,     Exchange};
    return table;
  }

  static inline FaultFs* current_ = nullptr;
  const dsckpt::io::Syscalls* before_ = nullptr;
  std::mutex mutex_;
  std::map<std::string, Fault> faults_;
  std::vector<std::string> calls_;
  std::map<int, Opened> opened_;
  std::set<std::string> unsynced_;
  std::vector<std::string> renames_;
  size_t short_bytes_ = size_t{1} << 62;
};

#endif  // DSCKPT_TESTS_SUPPORT_FAULT_FS_H_
