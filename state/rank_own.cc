#include "state/rank_own.h"

#include <string>

#include "format/names.h"
#include "format/rank_own.h"

namespace dsckpt {
namespace {

Status Reserved(std::string_view name) {
  return Status(StatusCode::kAlreadyExists,
                "'" + format::Printable(name) +
                    "' stands where what is declared to be a rank's own goes " +
                    "when the states of all ranks come together: rename it");
}

// Names without a tree are the caller's: nothing keeps them apart.
Status CheckFlat(const Description::Data& description, const format::NameView& roots) {
  uint64_t below = 0;
  for (const format::NameColumns* names :
       {&description.identity.tensor_names, &description.identity.object_names}) {
    for (uint32_t i = 0; i < names->size(); ++i) {
      const std::string_view name = (*names)[i];
      if (format::IsRankOwn(roots, name)) {
        ++below;
      } else if (IsBelowRanks(name)) {
        return Reserved(name);
      }
    }
  }
  if (below == description.walk.rank_own_items) return {};
  std::string others;
  if (roots.size() > 1) others = " or another of " + std::to_string(roots.size());
  return Status(StatusCode::kInvalidArgument,
                "the names of what is a rank's own are the beginnings of others that are not: '" +
                    format::Printable(roots[0]) + "'" + others);
}

Status CheckTreeRoot(const format::TreeColumns& tree, const format::NameView& roots) {
  for (size_t i = 1; i < tree.nodes.size(); ++i) {
    const format::NodeRecord& node = tree.nodes[i];
    const bool reserved =
        node.key_kind == Key::Kind::kString && format::HeapText(tree.heap, node.key) == kRanksKey;
    if (reserved && !roots.Find(kRanksKey)) return Reserved(kRanksKey);
    const bool container = node.kind == NodeKind::kDict || node.kind == NodeKind::kList ||
                           node.kind == NodeKind::kTuple;
    if (container) i += node.payload;
  }
  return {};
}

}  // namespace

Result<format::NameColumns> RankOwnRoots(const Description::Data& description) {
  format::NameColumns sorted = format::SortedRoots(description.identity.rank_own_names);
  if (sorted.size() == 0) return sorted;
  const format::NameView roots{sorted.bytes, sorted.ends};
  DSCKPT_RETURN_IF_ERROR(description.walk.flat ? CheckFlat(description, roots)
                                               : CheckTreeRoot(description.tree, roots));
  return sorted;
}

}  // namespace dsckpt
