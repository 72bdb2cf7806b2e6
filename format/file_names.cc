#include "format/file_names.h"

#include <algorithm>

#include "base/text.h"

namespace dsckpt::format {

const char* WhyNoShardName(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name.find('/') != name.npos || name.find('\0') != name.npos) return "is no bare file name";
  if (name[0] == '.') return "begins with a dot";
  if (!IsValidUtf8(name)) return "is not UTF-8";
  if (name.size() > kMaxFileName) return "is too long for a file name";
  if (name == kManifestName || name == kLatestName) return "is one that a commit uses";
  const bool marked =
      std::any_of(std::begin(kCommitMarks), std::end(kCommitMarks),
                  [name](std::string_view mark) { return name.find(mark) != name.npos; });
  if (!marked) return nullptr;
  return "holds '.incomplete-', '.removed-' or '.replaced-', which only a commit puts there";
}

}  // namespace dsckpt::format
