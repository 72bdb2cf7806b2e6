#include "reader/own_subtrees.h"

#include <algorithm>
#include <charconv>
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

void OwnSubtrees::SayMissing(NameList& missing) const {
  for (uint32_t i = 0; i < names_.size(); ++i) {
    if (!found_[i]) continue;
    for (const std::string_view item : missing_[i]) missing.Add(item);
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
    std::string_view rest = names[i];
    constexpr std::string_view kRanks = "ranks/";
    if (!rest.starts_with(kRanks)) continue;
    rest.remove_prefix(kRanks.size());
    uint32_t rank = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), rank);
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    if (error != std::errc() || !rest.starts_with('/')) continue;
    rest.remove_prefix(1);
    if (rest == root || rest.starts_with(root + "/")) ranks.insert(rank);
  }
  constexpr uint32_t kShardsToAsk = 16;
  const uint32_t shards =
      ranks.empty() ? std::min(checkpoint.manifest.shard_count(), kShardsToAsk) : 0;
  for (uint32_t i = 0; i < shards; ++i) {
    const auto file = checkpoint.OpenShard(i);
    if (file.ok() && file->IsRankOwn(root)) ranks.insert(checkpoint.manifest.shard_rank[i]);
  }
  const std::string title = "'" + format::Printable(root) + "'";
  if (ranks.empty()) return "no rank has " + title;
  const std::string first = std::to_string(*ranks.begin());
  if (ranks.size() == 1) return "rank " + first + " has " + title;
  return "ranks " + first + " to " + std::to_string(*ranks.rbegin()) + " have " + title;
}

}  // namespace dsckpt::reader
