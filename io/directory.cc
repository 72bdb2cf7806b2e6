#include "io/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>
#include <utility>

#include "io/error.h"
#include "io/file_kind.h"
#include "io/syscalls.h"
#include "io/target.h"

namespace dsckpt::io {
namespace {

/// A descriptor that is closed at the end, errors of close() unseen: for reading.
class ScopedDescriptor {
 public:
  explicit ScopedDescriptor(int fd) : fd_(fd) {}
  ~ScopedDescriptor() {
    if (fd_ >= 0) Sys().close(fd_);
  }
  ScopedDescriptor(const ScopedDescriptor&) = delete;
  ScopedDescriptor& operator=(const ScopedDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::pair<std::string, std::string> SplitPath(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

}  // namespace

std::string ParentOf(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  std::string parent = SplitPath(path).first;
  while (parent.size() > 1 && parent.back() == '/') parent.pop_back();
  return parent;
}

namespace {

Status WriteAll(int fd, std::span<const std::byte> bytes, const std::string& path) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n =
        Sys().pwrite(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (n < 0) return ErrnoStatus(errno, "write", path);
    done += static_cast<size_t>(n);
  }
  return Status();
}

/// Where renameat2 is not known: looks first. Directories are safe all the same, since rename()
/// replaces empty ones only.
int RenameAfterLooking(const std::string& from, const std::string& to) {
  struct stat info;
  if (lstat(to.c_str(), &info) == 0) {
    errno = EEXIST;
    return -1;
  }
  return Sys().rename(from.c_str(), to.c_str());
}

Status NotRegular(const std::string& path, mode_t mode) {
  return Status(StatusCode::kInvalidArgument,
                "'" + path + "' is " + FileKind(mode) + ", expected a regular file")
      .WithPath(path);
}

/// A link of that name is replaced, not followed.
Target TargetOf(const std::string& path) {
  auto [directory, base] = SplitPath(path);
  return {.shown = path, .directory = std::move(directory), .base = std::move(base), .mode = {}};
}

Status WriteNew(const std::string& path, std::span<const std::byte> bytes, bool sync) {
  DSCKPT_ASSIGN_OR_RETURN(const Temporary temporary, CreateTemporary(TargetOf(path), false, {}));
  Status status = WriteAll(temporary.fd, bytes, path);
  if (status.ok() && sync && Sys().fsync(temporary.fd) != 0) {
    status = ErrnoStatus(errno, "sync", path);
  }
  if (status.ok() && Sys().rename(temporary.path.c_str(), path.c_str()) != 0) {
    status = ErrnoStatus(errno, "publish", path);
  }
  if (!status.ok()) Sys().unlink(temporary.path.c_str());
  // Closed last: that gives up the lock, and an unlocked temporary is anybody's to remove.
  if (Sys().close(temporary.fd) != 0 && status.ok()) {
    status = ErrnoStatus(errno, "close", path);
  }
  return status;
}

}  // namespace

Result<std::vector<std::string>> ListDirectory(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), closedir);
  if (directory == nullptr) return ErrnoStatus(errno, "list", path);
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* entry = readdir(directory.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return ErrnoStatus(errno, "list", path);
  std::sort(names.begin(), names.end());
  return names;
}

Status MakeDirectories(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return Status();
    return ErrnoStatus(ENOTDIR, "make directory", path);
  }
  if (errno != ENOENT) return ErrnoStatus(errno, "make directory", path);
  const std::string parent = ParentOf(path);
  if (parent != path) DSCKPT_RETURN_IF_ERROR(MakeDirectories(parent));
  const Status made = MakeDirectory(path);
  // Somebody else may have been faster.
  if (!made.ok() && made.code() != StatusCode::kAlreadyExists) return made;
  return SyncDirectory(parent);
}

Status MakeDirectory(const std::string& path) {
  if (Sys().mkdir(path.c_str(), 0777) == 0) return Status();
  if (errno != EEXIST) return ErrnoStatus(errno, "make directory", path);
  return Status(StatusCode::kAlreadyExists, "cannot make directory '" + path + "': it stands")
      .WithErrno(EEXIST)
      .WithPath(path);
}

Status RenameNoReplace(const std::string& from, const std::string& to) {
  int result = Sys().rename_new(from.c_str(), to.c_str());
  if (result != 0 && (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP)) {
    result = RenameAfterLooking(from, to);
  }
  if (result == 0) return Status();
  const int error = errno;
  if (error != EEXIST && error != ENOTEMPTY) {
    return ErrnoStatus(error, "rename '" + from + "' to", to);
  }
  return Status(StatusCode::kAlreadyExists,
                "cannot rename '" + from + "' to '" + to + "': it stands already")
      .WithErrno(error)
      .WithPath(to);
}

Status Exchange(const std::string& a, const std::string& b) {
  if (Sys().exchange(a.c_str(), b.c_str()) == 0) return Status();
  const int error = errno;
  Status status = ErrnoStatus(error, "exchange '" + a + "' and", b);
  if (error != EINVAL && error != ENOSYS && error != ENOTSUP) return status;
  return Status(StatusCode::kUnsupported, status.message()).WithErrno(error).WithPath(b);
}

Result<std::string> ReplaceDirectory(const std::string& from, const std::string& to,
                                     const std::string& aside,
                                     const std::function<void()>& between) {
  Status exchanged = Exchange(from, to);
  if (exchanged.ok()) return from;
  if (exchanged.code() != StatusCode::kUnsupported) return exchanged;
  DSCKPT_RETURN_IF_ERROR(RenameNoReplace(to, aside));
  if (between) between();
  const Status renamed = RenameNoReplace(from, to);
  if (renamed.ok()) return aside;
  const Status undone = RenameNoReplace(aside, to);
  if (undone.ok()) return renamed;
  return Status(renamed.code(), renamed.message() + "; what stood there is now called '" + aside +
                                    "': " + undone.message())
      .WithErrno(renamed.error_number())
      .WithPath(to);
}

Status RenameFile(const std::string& from, const std::string& to) {
  if (Sys().rename(from.c_str(), to.c_str()) == 0) return Status();
  return ErrnoStatus(errno, "rename '" + from + "' to", to);
}

Status SyncDirectory(const std::string& path) {
  const ScopedDescriptor fd(Sys().open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
  if (fd.get() < 0) return ErrnoStatus(errno, "open directory", path);
  if (Sys().fsync(fd.get()) == 0 || errno == EINVAL || errno == ENOTSUP) return Status();
  return ErrnoStatus(errno, "sync directory", path);
}

Status RemoveAll(const std::string& path) {
  const auto remove_one = [](const char* entry, const struct stat*, int, FTW*) {
    return remove(entry) == 0 || errno == ENOENT ? 0 : errno;
  };
  constexpr int kDescriptors = 16;  // Deeper directories are opened again.
  const int error = nftw(path.c_str(), remove_one, kDescriptors, FTW_DEPTH | FTW_PHYS);
  if (error > 0) return ErrnoStatus(error, "remove", path);
  if (error < 0 && errno != ENOENT) return ErrnoStatus(errno, "remove", path);
  return Status();
}

Result<std::vector<std::byte>> ReadSmallFile(const std::string& path, uint64_t max_bytes) {
  // Without O_NONBLOCK a FIFO of that name would block for good.
  const ScopedDescriptor fd(Sys().open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0));
  if (fd.get() < 0) return ErrnoStatus(errno, "open", path);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "read", path);
  if (!S_ISREG(info.st_mode)) return NotRegular(path, info.st_mode);
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size > max_bytes) {
    return Status(StatusCode::kLimitExceeded, "'" + path + "' has " + std::to_string(size) +
                                                  " bytes, expected at most " +
                                                  std::to_string(max_bytes))
        .WithPath(path);
  }
  std::vector<std::byte> bytes(size);
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n =
        Sys().pread(fd.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (n < 0) return ErrnoStatus(errno, "read", path);
    if (n == 0) break;  // It was cut while it was read.
    done += static_cast<size_t>(n);
  }
  bytes.resize(done);
  return bytes;
}

Status WriteSmallFile(const std::string& path, std::span<const std::byte> bytes) {
  RemoveOrphans(TargetOf(path));
  DSCKPT_RETURN_IF_ERROR(WriteNew(path, bytes, true));
  return SyncDirectory(SplitPath(path).first);
}

Status WriteValueFile(const std::string& path, std::span<const std::byte> bytes) {
  return WriteNew(path, bytes, false);
}

Result<PathKind> KindOf(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return PathKind::kNone;
    return ErrnoStatus(errno, "look at", path);
  }
  if (S_ISREG(info.st_mode)) return PathKind::kFile;
  return S_ISDIR(info.st_mode) ? PathKind::kDirectory : PathKind::kOther;
}

bool Stands(const std::string& path) {
  const auto kind = KindOf(path);
  return kind.ok() && *kind != PathKind::kNone;
}

Result<uint64_t> FileBytes(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "look at", path);
  if (!S_ISREG(info.st_mode)) return NotRegular(path, info.st_mode);
  return static_cast<uint64_t>(info.st_size);
}

}  // namespace dsckpt::io
