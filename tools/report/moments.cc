// Which tensors are the moments of Adam of which.

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/report/report.h"

namespace dsckpt::tools {
namespace {

constexpr std::string_view kFirstMoment = "exp_avg", kSecondMoment = "exp_avg_sq";
constexpr uint32_t kSeveral = UINT32_MAX;

std::vector<std::string> PartsOf(std::string_view name) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find_first_of("./", begin), name.size());
    parts.emplace_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// The last `count` parts.
std::string EndOf(const std::vector<std::string>& parts, size_t count) {
  std::string end;
  for (size_t i = parts.size() - count; i < parts.size(); ++i) end += parts[i] + '.';
  return end;
}

bool IsMoment(const std::string& part) { return part == kFirstMoment || part == kSecondMoment; }

}  // namespace

void PairMoments(std::vector<ReportRow>& rows) {
  std::map<std::string, uint32_t> by_end;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const std::vector<std::string> parts = PartsOf(rows[i].name);
    if (std::any_of(parts.begin(), parts.end(), IsMoment)) continue;
    for (size_t count = 1; count <= parts.size(); ++count) {
      const auto [known, added] = by_end.emplace(EndOf(parts, count), i);
      if (!added) known->second = kSeveral;
    }
  }
  for (uint32_t i = 0; i < rows.size(); ++i) {
    std::vector<std::string> parts = PartsOf(rows[i].name);
    const auto moment = std::find_if(parts.begin(), parts.end(), IsMoment);
    if (moment == parts.end()) continue;
    const bool second = *moment == kSecondMoment;
    parts.erase(moment);
    for (size_t count = parts.size(); count > 0; --count) {
      const auto found = by_end.find(EndOf(parts, count));
      if (found == by_end.end() || found->second == kSeveral) continue;
      if (rows[found->second].shape != rows[i].shape) continue;
      (second ? rows[found->second].exp_avg_sq : rows[found->second].exp_avg) = i;
      break;
    }
  }
}

}  // namespace dsckpt::tools
