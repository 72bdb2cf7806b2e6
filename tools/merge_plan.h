#ifndef DSCKPT_TOOLS_MERGE_PLAN_H_
#define DSCKPT_TOOLS_MERGE_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/provider.h"
#include "tools/merge_tree.h"

namespace dsckpt::tools {

/// How the logical tensors are spread over output files.
struct Spread {
  uint64_t max_shard_bytes = 0;  ///< 0: no limit
  uint32_t shards = 0;           ///< 0: as many as max_shard_bytes makes, else one
};

/// What a merge will write. Tensors stay where they are until an output asks for their bytes.
class MergePlan {
 public:
  /// Checks that every tensor is covered (kIncomplete, before any output), folds tied tensors,
  /// spreads the rest.
  static Result<MergePlan> Make(const Checkpoint& checkpoint, const Spread& spread);

  size_t file_count() const { return chosen_.size(); }
  /// Logical tensors of one output file, by ordinal.
  const std::vector<bool>& chosen(size_t file) const { return chosen_[file]; }
  uint64_t bytes(size_t file) const { return bytes_[file]; }
  uint64_t total_bytes() const;
  uint32_t tensors(size_t file) const;
  uint32_t alias_count() const { return aliases_; }
  uint64_t piece_count() const { return pieces_; }
  uint64_t stored_bytes() const { return stored_bytes_; }  ///< of all pieces, copies included
  /// The tensor that stands for `tensor`: another of the same pieces, or itself.
  uint32_t owner(uint32_t tensor) const { return owner_[tensor]; }
  /// An address of its own for each tensor.
  const void* token(uint32_t tensor) const { return &owner_[tensor]; }

 private:
  Status FoldTies(const Checkpoint& checkpoint);
  void SpreadTensors(const Checkpoint& checkpoint, const Spread& spread);

  std::vector<uint32_t> owner_;
  std::vector<std::vector<bool>> chosen_;
  std::vector<uint64_t> bytes_;
  uint32_t aliases_ = 0;
  uint64_t pieces_ = 0, stored_bytes_ = 0;
};

/// One output file of a merge as a provider: tensors assembled while they are written, and with
/// `rest` objects, leaves and attributes. Borrows all of its parts.
class MergeProvider final : public StateProvider {
 public:
  MergeProvider(const Checkpoint& checkpoint, const MergePlan& plan, const MergedTree& tree,
                size_t file, bool rest, bool keep_encodings, bool verify);
  void Describe(Description& description) const override;

 private:
  void DescribeTensor(Description& description, const Key& key, uint32_t tensor) const;
  void DescribeObject(Description& description, const Key& key,
                      const MergedTree::ObjectRef& object) const;
  void DescribeAttributes(Description& description) const;

  const Checkpoint& checkpoint_;
  const MergePlan& plan_;
  const MergedTree& tree_;
  const size_t file_;
  const bool rest_, keep_encodings_, verify_;
};

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_MERGE_PLAN_H_
