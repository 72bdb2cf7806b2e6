#ifndef DSCKPT_MERGE_TREE_H_
#define DSCKPT_MERGE_TREE_H_

// The state trees of all ranks in one.

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/provider.h"
#include "dsckpt/tree.h"

namespace dsckpt::merge {

/// Equal in every bit: a NaN is what it is.
bool SameValue(const Value& a, const Value& b);

/// The state trees of all shards in one: dicts of one place are one, so are lists of one length,
/// equal leaves fold, and what ranks hold in different versions is kept for each under "ranks",
/// rank, path. So is what was declared to be a rank's own (File::RankOwnNames), also where it is
/// equal; in a list, a tuple or what a tag makes of a dict, null stays at its place, so that the
/// rest keeps its own. Tensors appear as logical tensors.
class MergedTree {
 public:
  /// Where an object is stored.
  struct ObjectRef {
    uint32_t shard = 0;
    std::string name;
  };

  explicit MergedTree(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  /// Shards in order. One without a tree makes the whole flat: names as they are, leaves left out.
  Status Add(uint32_t shard);
  /// After all shards: gives logical tensors that no tree names (flat buffers' parts) their place.
  Status PlaceTensors();

  bool flat() const { return flat_; }
  /// Whether something stands under "ranks" for each rank.
  bool has_ranks() const { return rank_specific_ + rank_own_ > 0; }
  size_t object_count() const { return object_count_; }
  /// Leaves of which ranks hold different versions.
  size_t rank_specific() const { return rank_specific_; }
  /// Subtrees that were declared to be a rank's own, of all ranks.
  size_t rank_own() const { return rank_own_; }

  /// Describes the tensors that `tensor` takes (ordinals of the checkpoint) with their containers;
  /// with `rest`, everything else too.
  using DescribeTensor =
      std::function<void(Description&, const Key&, uint32_t tensor, std::string_view tag)>;
  using DescribeObject =
      std::function<void(Description&, const Key&, const ObjectRef&, std::string_view tag)>;
  void Describe(Description& description, const std::vector<bool>& chosen, bool rest,
                const DescribeTensor& tensor, const DescribeObject& object) const;

 private:
  struct OwnedKey {
    bool is_int = false;
    int64_t integer = 0;
    std::string text;
    auto operator<=>(const OwnedKey&) const = default;
    Key key() const { return is_int ? Key(integer) : Key(text); }
  };
  struct TreeNode {
    OwnedKey key;
    NodeKind kind = NodeKind::kDict;
    std::string tag;
    Value value;                 // of scalars
    uint32_t tensor = 0;         // of tensors: logical ordinal
    ObjectRef object;            // of objects
    size_t stored_children = 0;  // of containers, in the shard that this one is from
    std::vector<std::unique_ptr<TreeNode>> children;
    std::map<OwnedKey, TreeNode*> by_key;

    TreeNode* Find(const OwnedKey& wanted) const;
    TreeNode& Append(OwnedKey with);
    bool is_container() const;
  };

  Status Walk(TreeNode& into, const Node& from, uint32_t shard, const File& file);
  Status Place(TreeNode& into, const OwnedKey& key, const Node& from, uint32_t shard,
               const File& file);
  /// The container for what `shard`'s rank has at the place of the walk: "ranks", rank, path.
  Result<TreeNode*> PlaceOfRank(uint32_t shard, const File& file);
  /// The name of an item among the logical tensors.
  std::string LogicalName(const Node& from, uint32_t shard) const;
  Status PlaceOwn(TreeNode& into, const Node& from, uint32_t shard, const File& file);
  /// Whether two containers at one place can be one.
  static bool Joins(const TreeNode& there, const Node& from);
  Result<bool> SameLeaf(const TreeNode& there, const Node& from, const File& file) const;
  Status Fill(TreeNode& leaf, const Node& from, uint32_t shard, const File& file);
  Status AddFlat(uint32_t shard, const File& file);
  bool InsertPath(uint32_t tensor);
  void Emit(Description& description, const TreeNode& node, const Key& key,
            const std::vector<bool>& chosen, bool rest, const DescribeTensor& tensor,
            const DescribeObject& object) const;
  bool Wanted(const TreeNode& node, const std::vector<bool>& chosen, bool rest) const;
  /// Whether all that a container had is emitted with it, so that its tag still fits.
  bool IsIntact(const TreeNode& node, const std::vector<bool>& chosen, bool rest) const;

  const Checkpoint& checkpoint_;
  TreeNode root_;
  std::vector<OwnedKey> path_;  // of the walk
  std::string name_;          // the same as an item name, where the shard has names of a rank's own
  bool own_ = false;          // the walk is in a subtree that is the rank's own
  std::vector<bool> placed_;  // by logical tensor
  std::map<std::string, ObjectRef> flat_objects_;
  bool flat_ = false;
  size_t object_count_ = 0, rank_specific_ = 0, rank_own_ = 0;
};

}  // namespace dsckpt::merge

#endif  // DSCKPT_MERGE_TREE_H_
