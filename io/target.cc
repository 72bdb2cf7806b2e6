#include "io/target.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "io/error.h"

namespace dsckpt::io {
namespace {

constexpr std::string_view kDoing = "create";

Result<std::string> Absolute(const std::string& path) {
  if (path.front() == '/') return path;
  std::string here(PATH_MAX, '\0');
  if (getcwd(here.data(), here.size()) == nullptr) return ErrnoStatus(errno, kDoing, path);
  here.resize(here.find('\0'));
  return here + "/" + path;
}

Result<std::string> ReadLink(const std::string& link) {
  std::string to(PATH_MAX, '\0');
  const ssize_t length = readlink(link.c_str(), to.data(), to.size());
  if (length < 0) return ErrnoStatus(errno, kDoing, link);
  to.resize(static_cast<size_t>(length));
  if (to.empty() || to.front() == '/') return to;
  return link.substr(0, link.rfind('/') + 1) + to;
}

Status CheckDirectory(const OutputTarget& target) {
  struct stat info;
  if (stat(target.directory.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return Status();
    errno = ENOTDIR;
  }
  const int error = errno;
  Status why = ErrnoStatus(error, kDoing, target.shown);
  if (error != ENOENT) return why;
  return Status(StatusCode::kNotFound, "cannot create '" + target.shown + "': the directory '" +
                                           target.directory + "' does not exist; create it first")
      .WithErrno(error)
      .WithPath(target.shown);
}

Status Unsuitable(const std::string& path, std::string_view reason) {
  return Status(StatusCode::kInvalidArgument,
                "cannot create '" + path + "': " + std::string(reason) + "; name a file")
      .WithPath(path);
}

}  // namespace

Result<OutputTarget> ResolveTarget(const std::string& path) {
  if (path.empty()) return Unsuitable(path, "the path is empty");
  if (path.find('\0') != std::string::npos) return Unsuitable(path, "the path contains a NUL");
  DSCKPT_ASSIGN_OR_RETURN(std::string at, Absolute(path));
  constexpr int kMaxLinks = 40;  // The kernel's own limit.
  for (int links = 0; links <= kMaxLinks; ++links) {
    const size_t slash = at.rfind('/');
    OutputTarget target{.shown = path,
                        .directory = slash == 0 ? "/" : at.substr(0, slash),
                        .base = at.substr(slash + 1),
                        .mode = std::nullopt};
    struct stat info;
    if (lstat(at.c_str(), &info) != 0) {
      if (errno != ENOENT) return ErrnoStatus(errno, kDoing, path);
      DSCKPT_RETURN_IF_ERROR(CheckDirectory(target));
      if (target.base.empty()) return Unsuitable(path, "it ends in '/'");
      return target;
    }
    if (S_ISREG(info.st_mode)) {
      target.mode = info.st_mode & 0777;
      return target;
    }
    if (!S_ISLNK(info.st_mode)) {
      return Unsuitable(path, "it is " + std::string(FileKind(info.st_mode)));
    }
    DSCKPT_ASSIGN_OR_RETURN(at, ReadLink(at));
  }
  return ErrnoStatus(ELOOP, kDoing, path);
}

}  // namespace dsckpt::io
