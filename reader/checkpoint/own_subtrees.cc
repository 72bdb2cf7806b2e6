#include "reader/checkpoint/own_subtrees.h"

#include <algorithm>
#include <set>

#include "format/names.h"

namespace dsckpt::reader {

bool OwnSubtrees::Note(std::string_view item, bool found) {
  const auto root = format::FindRoot(roots(), item);
  if (!root) return false;
  if (found) found_[*root] = true;
  if (!found) missing_[*root].push_back(item);
  return true;
}

void OwnSubtrees::ForEachMissing(const std::function<void(std::string_view item)>& visit) const {
  for (uint32_t i = 0; i < names_.size(); ++i) {
    if (!found_[i]) continue;
    for (const std::string_view item : missing_[i]) visit(item);
  }
}

std::vector<std::string> OwnSubtrees::Without() const {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < names_.size(); ++i) {
    if (!found_[i] && !missing_[i].empty()) names.emplace_back(names_[i]);
  }
  return names;
}

std::string OwnersOf(const Checkpoint::Impl& checkpoint, const std::string& root) {
  std::set<uint32_t> ranks;
  const format::NameView& names = checkpoint.manifest.pieces.logical_names;
  for (uint32_t i = 0; i < names.size(); ++i) {
    std::string_view own;
    const auto rank = ParseRankOwnName(names[i], &own);
    if (rank && (own == root || own.starts_with(root + "/"))) ranks.insert(*rank);
  }
  constexpr uint32_t kShardsToAsk = 16;
  const uint32_t shards =
      ranks.empty() ? std::min(checkpoint.manifest.shard_count(), kShardsToAsk) : 0;
  for (uint32_t i = 0; i < shards; ++i) {
    const auto file = checkpoint.OpenShard(i);
    if (file.ok() && file->IsRankOwn(root)) ranks.insert(checkpoint.manifest.shard_rank[i]);
  }
  const std::string title = "'" + Printable(root) + "'";
  if (ranks.empty()) return "no rank has " + title;
  const std::string first = std::to_string(*ranks.begin());
  if (ranks.size() == 1) return "rank " + first + " has " + title;
  return "ranks " + first + " to " + std::to_string(*ranks.rbegin()) + " have " + title;
}

}  // namespace dsckpt::reader
