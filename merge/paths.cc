#include "merge/paths.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <system_error>

#include "dsckpt/run_layout.h"

namespace dsckpt::merge {

bool FileExists(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0;
}

bool IsCheckpointDirectory(const std::string& path) {
  return IsDirectory(path) && FileExists(path + "/" + std::string(kManifestName));
}

Result<std::string> AbsolutePath(const std::string& path) {
  std::string whole = path;
  if (!path.starts_with('/')) {
    const std::unique_ptr<char, decltype(&free)> current(getcwd(nullptr, 0), &free);
    if (current == nullptr) {
      const std::error_code error(errno, std::generic_category());
      return Status(StatusCode::kIoError, "cannot find the current directory: " + error.message())
          .WithErrno(error.value())
          .WithPath(path);
    }
    whole = std::string(current.get()) + "/" + path;
  }
  std::vector<std::string_view> names;
  for (std::string_view rest = whole; !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find('/'));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    if (name == ".." && !names.empty()) names.pop_back();
    if (!name.empty() && name != "." && name != "..") names.push_back(name);
  }
  std::string normal;
  for (const std::string_view name : names) normal.append("/").append(name);
  return normal.empty() ? "/" : normal;
}

std::string CanonicalPath(const std::string& path) {
  const std::unique_ptr<char, decltype(&free)> found(realpath(path.c_str(), nullptr), &free);
  return found == nullptr ? std::string() : std::string(found.get());
}

}  // namespace dsckpt::merge
