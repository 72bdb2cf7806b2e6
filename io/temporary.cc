// Temporary files: creation, clearing of orphans.

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/text.h"
#include "dsckpt/limits.h"
#include "io/lock_file.h"
#include "io/output_file.h"
#include "io/syscalls.h"
#include "io/target.h"

namespace dsckpt::io {
namespace {

constexpr std::string_view kBegin = ".dsckpt-", kSuffix = ".tmp";
constexpr size_t kHexDigits = 16;

/// FNV-1a: any fixed function does, it only keeps apart the temporaries of different targets.
uint64_t NameHash(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::string Prefix(const Target& target) {
  return std::string(kBegin) + Hex64(NameHash(target.base)) + "-";
}

bool RefusesDirect(int error) { return error == EINVAL || error == EOPNOTSUPP; }

void WarnBuffered(const Warn& warn, const Target& target, const std::string& reason, int error) {
  if (!warn) return;
  warn(Status(StatusCode::kUnsupported, "cannot write '" + target.shown + "' with O_DIRECT: " +
                                            reason + "; writing through the page cache")
           .WithErrno(error)
           .WithPath(target.shown));
}

/// Whether O_DIRECT on `fd` works at the alignment that all our writes have. True where the kernel
/// does not say (before Linux 6.1, or the file system keeps it to itself).
bool AlignmentFits(int fd) {
#ifdef STATX_DIOALIGN
  struct statx info = {};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) != 0) return true;
  if ((info.stx_mask & STATX_DIOALIGN) == 0) return true;
  return info.stx_dio_offset_align != 0 && info.stx_dio_offset_align <= kPageBytes &&
         info.stx_dio_mem_align <= kPageBytes;
#else
  static_cast<void>(fd);
  return true;
#endif
}

constexpr int kLookFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;

template <typename Visit>
void ForEachTemporary(const Target& target, Visit visit) {
  const std::string prefix = Prefix(target);
  std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(target.directory.c_str()), closedir);
  if (directory == nullptr) return;
  while (const dirent* entry = readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (!IsTemporaryName(name) || !name.starts_with(prefix)) continue;
    visit(target.directory + "/" + std::string(name));
  }
}

/// open() of a new file, without O_DIRECT where it is refused.
int OpenNew(const Target& target, Temporary& temporary, const Warn& warn) {
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  // Never more permissive than the file that is being replaced, not for an instant.
  const mode_t mode = target.mode.value_or(0666) & 0666;
  const char* path = temporary.path.c_str();
  if (temporary.direct) {
    const int fd = Sys().open(path, flags | O_DIRECT, mode);
    if (fd >= 0 && !AlignmentFits(fd)) {
      temporary.direct = false;
      fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_DIRECT);
      WarnBuffered(warn, target, "the file system wants an alignment above 4096 bytes", EINVAL);
    }
    if (fd >= 0 || !RefusesDirect(errno)) return fd;
    // Linux may have created the file before it refused the flag.
    const int error = errno;
    Sys().unlink(path);
    temporary.direct = false;
    WarnBuffered(warn, target, "the file system refuses it", error);
  }
  return Sys().open(path, flags, mode);
}

}  // namespace

bool IsTemporaryName(std::string_view name) {
  const auto take_digits = [&name] {
    const size_t digits = std::min(name.find_first_not_of("0123456789abcdef"), name.size());
    name.remove_prefix(digits);
    return digits == kHexDigits;
  };
  if (!name.starts_with(kBegin)) return false;
  name.remove_prefix(kBegin.size());
  if (!take_digits() || !name.starts_with('-')) return false;
  name.remove_prefix(1);
  return take_digits() && name == kSuffix;
}

Result<Temporary> CreateTemporary(const Target& target, bool direct, const Warn& warn) {
  Temporary temporary{.path = {}, .fd = -1, .direct = direct};
  while (true) {
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random) {
      return ErrnoStatus(errno, "create a temporary name for", target.shown);
    }
    temporary.path = target.directory + "/" + Prefix(target) + Hex64(random);
    temporary.path += kSuffix;
    temporary.fd = OpenNew(target, temporary, warn);
    if (temporary.fd < 0) {
      if (errno == EEXIST) continue;
      return ErrnoStatus(errno, "create", target.shown);
    }
    // Where the file system has no locks a cleaner gets none either, and removes nothing.
    const bool taken = flock(temporary.fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!taken && StillNames(temporary.path, temporary.fd)) break;
    Sys().close(temporary.fd);  // A cleaner took it for an orphan before it was locked.
  }
  if (target.mode) {
    // Best effort: a file system without modes cannot keep one.
    static_cast<void>(fchmod(temporary.fd, *target.mode) == 0);
  }
  return temporary;
}

void RemoveOrphans(const Target& target) {
  ForEachTemporary(target, [](const std::string& path) {
    // For writing: network file systems give an exclusive lock to writers only.
    // One made to replace a read-only file cannot be opened so, but the rest can.
    int fd = ::open(path.c_str(), O_WRONLY | kLookFlags);
    if (fd < 0 && errno == EACCES) fd = ::open(path.c_str(), O_RDONLY | kLookFlags);
    if (fd < 0) return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && StillNames(path, fd)) Sys().unlink(path.c_str());
    ::close(fd);
  });
}

std::optional<std::string> FindSaveUnderWay(const Target& target) {
  std::optional<std::string> found;
  ForEachTemporary(target, [&](const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | kLookFlags);
    if (fd < 0) return;
    if (flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) found = path;
    ::close(fd);
  });
  return found;
}

}  // namespace dsckpt::io
