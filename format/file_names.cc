#include "format/file_names.h"

#include <algorithm>

#include "format/names.h"

namespace dsckpt::format {

bool IsBareFileName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxFileName && name != "." && name != ".." &&
         name.find('/') == name.npos && name.find('\0') == name.npos && IsValidUtf8(name);
}

bool HasCommitMark(std::string_view name) {
  return std::any_of(std::begin(kCommitMarks), std::end(kCommitMarks),
                     [name](std::string_view mark) { return name.find(mark) != name.npos; });
}

bool IsShardName(std::string_view name) {
  return IsBareFileName(name) && name[0] != '.' && name != kLatestName && name != kManifestName &&
         !HasCommitMark(name);
}

}  // namespace dsckpt::format
