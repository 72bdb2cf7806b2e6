#include "format/file_names.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "format/names.h"

namespace dsckpt::format {
namespace {

// What stands for a device on Windows, alone or before an extension, whatever its case. Those of
// one digit have "1" to "9", and as digits also the superscripts one, two and three.
constexpr std::string_view kDevices[] = {"con", "prn", "aux", "nul", "conin$", "conout$"};
constexpr std::string_view kNumberedDevices[] = {"com", "lpt"};
constexpr std::string_view kDeviceDigits[] = {"1", "2", "3", "4",        "5",        "6",
                                              "7", "8", "9", "\xc2\xb9", "\xc2\xb2", "\xc2\xb3"};

template <size_t n>
bool IsAmong(std::string_view text, const std::string_view (&texts)[n]) {
  return std::find(std::begin(texts), std::end(texts), text) != std::end(texts);
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

/// `folded`: a name in lower case.
bool IsDevice(std::string_view folded) {
  std::string_view base = folded.substr(0, folded.find('.'));
  base = base.substr(0, base.find_last_not_of(' ') + 1);
  return IsAmong(base, kDevices) ||
         (IsAmong(base.substr(0, 3), kNumberedDevices) && IsAmong(base.substr(3), kDeviceDigits));
}

/// `folded`: a name in lower case. The manifest, or a part of one.
bool IsManifestName(std::string_view folded) {
  if (!folded.starts_with(kManifestName)) return false;
  folded.remove_prefix(kManifestName.size());
  if (folded.empty()) return true;
  return folded.size() > 1 && folded[0] == '.' &&
         std::all_of(folded.begin() + 1, folded.end(), IsDigit);
}

/// What leads elsewhere, or opens something else, on another system.
const char* WhyUnsafeElsewhere(std::string_view name, std::string_view folded) {
  if (HoldsControl(name)) return "holds a control character";
  if (name.find_first_of("\\:") != name.npos) {
    return "holds a backslash or a colon, which lead elsewhere on Windows";
  }
  if (name.back() == '.' || name.back() == ' ') {
    return "ends with a dot or a space, which Windows takes away";
  }
  return IsDevice(folded) ? "is that of a device on Windows" : nullptr;
}

}  // namespace

std::string FoldCase(std::string_view name) {
  std::string folded(name);
  for (char& c : folded) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return folded;
}

std::optional<std::string> FindSameFile(std::span<const std::string_view> names) {
  std::vector<std::string> sorted;
  for (const std::string_view name : names) sorted.push_back(FoldCase(name));
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice == sorted.end()) return std::nullopt;
  return *twice;
}

const char* WhyNoEntryName(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name.find('/') != name.npos || name.find('\0') != name.npos) return "is no bare file name";
  if (name[0] == '.') return "begins with a dot";
  if (!IsValidUtf8(name)) return "is not UTF-8";
  if (name.size() > kMaxFileName) return "is too long for a file name";
  if (name == kLatestName || IsManifestName(name)) return "is one that a commit uses";
  const bool marked =
      std::any_of(std::begin(kCommitMarks), std::end(kCommitMarks),
                  [&](std::string_view mark) { return name.find(mark) != name.npos; });
  if (!marked) return nullptr;
  return "holds '.incomplete-', '.removed-' or '.replaced-', which only a commit puts there";
}

const char* WhyNoShardName(std::string_view name) {
  if (const char* const why = WhyNoEntryName(name)) return why;
  const std::string folded = FoldCase(name);
  if (const char* const why = WhyNoEntryName(folded)) return why;
  return WhyUnsafeElsewhere(name, folded);
}

}  // namespace dsckpt::format
