#include "format/rank_own.h"

#include <charconv>
#include <vector>

#include "format/columns/check.h"
#include "format/names.h"

namespace dsckpt::format {
namespace {

/// Finds roots below roots while names pass in byte order. What begins with a name follows it, but
/// "a!" stands between "a" and "a/b": all names that the last one begins with are remembered.
class Ancestors {
 public:
  /// The name above `name` among those that passed, or nothing.
  std::optional<std::string_view> Above(std::string_view name) {
    while (!open_.empty() && !name.starts_with(open_.back())) open_.pop_back();
    std::optional<std::string_view> above;
    for (const std::string_view root : open_) {
      if (name.size() > root.size() && name[root.size()] == '/') above = root;
    }
    open_.push_back(name);
    return above;
  }

 private:
  std::vector<std::string_view> open_;
};

}  // namespace

std::optional<uint32_t> FindRoot(const NameView& roots, std::string_view name) {
  if (roots.size() == 0) return std::nullopt;
  for (size_t slash = name.find('/'); slash != std::string_view::npos;
       slash = name.find('/', slash + 1)) {
    if (const auto root = roots.Find(name.substr(0, slash))) return root;
  }
  return roots.Find(name);
}

NameColumns SortedRoots(const NameColumns& described) {
  NameColumns roots;
  Ancestors ancestors;
  std::string_view last;
  for (const uint32_t i : SortedByName(described)) {
    const std::string_view name = described[i];
    const bool repeated = roots.size() != 0 && name == last;
    if (repeated || ancestors.Above(name)) continue;
    roots.Append(name);
    last = name;
  }
  return roots;
}

Status CheckRankOwn(const NameView& roots) {
  DSCKPT_RETURN_IF_ERROR(CheckNames("index", roots, "rank_own"));
  Ancestors ancestors;
  for (uint32_t i = 0; i < roots.size(); ++i) {
    const auto above = ancestors.Above(roots[i]);
    if (!above) continue;
    return ColumnError("index", ItemTitle("rank_own", roots, i), "name", "below no other of them",
                       "below '" + Printable(*above) + "'");
  }
  return {};
}

}  // namespace dsckpt::format

namespace dsckpt {

std::string RankOwnName(uint32_t rank, std::string_view name) {
  return std::string(kRanksKey) + "/" + std::to_string(rank) + "/" + std::string(name);
}

std::optional<uint32_t> ParseRankOwnName(std::string_view whole, std::string_view* name) {
  if (!IsBelowRanks(whole) || whole == kRanksKey) return std::nullopt;
  const std::string_view rest = whole.substr(kRanksKey.size() + 1);
  uint32_t rank = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), rank);
  if (error != std::errc()) return std::nullopt;
  const std::string beginning = RankOwnName(rank, "");
  if (!whole.starts_with(beginning)) return std::nullopt;  // "ranks/03/x", "ranks/3"
  *name = whole.substr(beginning.size());
  return rank;
}

bool IsBelowRanks(std::string_view name) {
  if (!name.starts_with(kRanksKey)) return false;
  return name.size() == kRanksKey.size() || name[kRanksKey.size()] == '/';
}

}  // namespace dsckpt
