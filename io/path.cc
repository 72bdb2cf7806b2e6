#include "io/path.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

namespace dsckpt::io {

Result<std::string> AbsolutePath(const std::string& path) {
  if (path.empty()) return Status(StatusCode::kInvalidArgument, "the path is empty");
  if (path.front() == '/') return path;
  const std::unique_ptr<char, decltype(&std::free)> current(get_current_dir_name(), &std::free);
  if (current == nullptr) {
    const int error = errno;
    return Status(StatusCode::kInvalidArgument,
                  "'" + path + "' is relative, and the current directory cannot be found out")
        .WithErrno(error)
        .WithPath(path);
  }
  std::string absolute = current.get();
  if (absolute.back() != '/') absolute += '/';
  return absolute + path;
}

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string_view WithoutTrailingSlashes(std::string_view path) {
  while (path.size() > 1 && (path.ends_with('/') || path.ends_with("/."))) {
    path.remove_suffix(path.ends_with('/') ? 1 : 2);
  }
  return path;
}

bool IsDirectory(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace dsckpt::io
