#include "format/rank_own.h"

#include <vector>

#include "format/catalog_items.h"
#include "format/column_check.h"
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

std::string RankOwnName(uint32_t rank, std::string_view name) {
  return "ranks/" + std::to_string(rank) + "/" + std::string(name);
}

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
