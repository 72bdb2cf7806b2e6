#ifndef DSCKPT_MERGE_PLAN_H_
#define DSCKPT_MERGE_PLAN_H_

// Which tensors a merge writes, under which names, and into which files.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/merge.h"
#include "merge/cancellation.h"

namespace dsckpt::merge {

/// What becomes of the logical tensors.
struct Choice {
  /// By ordinal: the name in the output; nothing for a tensor that is left out.
  std::vector<std::optional<std::string>> names;
  bool renamed = false;        ///< the output has names alone, for the tree has the old ones
  bool tensors_only = false;   ///< objects and plain values are left out
  std::optional<DType> dtype;  ///< floating-point tensors are cast to it
  /// The attribute `step`, where no shard has one.
  std::optional<int64_t> step;
};

/// All of `selection`, or kInvalidArgument where it meets nothing.
Result<Choice> MakeChoice(const Checkpoint& checkpoint, const TensorSelection& selection);

/// What a merge will write. Tensors stay where they are until an output asks for their bytes.
class MergePlan {
 public:
  /// Checks that every chosen tensor is covered (kIncomplete, before any output), folds tied
  /// tensors, spreads the rest.
  static Result<MergePlan> Make(const Checkpoint& checkpoint, Choice choice,
                                const MergeOptions& options, Cancellation& cancellation);

  const Choice& choice() const { return choice_; }
  /// Name in the output. REQUIRES: chosen.
  const std::string& name(uint32_t tensor) const { return *choice_.names[tensor]; }
  /// Dtype in the output, and bytes.
  DType dtype(const LogicalTensorInfo& tensor) const;
  uint64_t bytes_of(const LogicalTensorInfo& tensor) const;
  /// Names that inputs record for tensors of others (safetensors metadata), in output file `file`.
  const std::vector<std::pair<std::string, uint32_t>>& ties(size_t file) const {
    return ties_[file];
  }
  /// Such names that are left out, because their tensors get others.
  uint32_t dropped_ties() const { return dropped_ties_; }
  uint32_t cast_count() const { return casts_; }

  size_t file_count() const { return chosen_.size(); }
  /// Logical tensors of one output file, by ordinal.
  const std::vector<bool>& chosen(size_t file) const { return chosen_[file]; }
  uint64_t bytes(size_t file) const { return bytes_[file]; }
  uint64_t total_bytes() const;
  uint32_t tensors(size_t file) const;
  uint32_t tensor_count() const { return static_cast<uint32_t>(order_.size()) - folded_; }
  uint32_t alias_count() const { return folded_ + recorded_ties_; }
  uint64_t piece_count() const { return pieces_; }
  uint64_t stored_bytes() const { return stored_bytes_; }  ///< of all pieces, copies included
  /// The tensor that stands for `tensor`: another of the same pieces, or itself.
  uint32_t owner(uint32_t tensor) const { return owner_[tensor]; }
  /// An address of its own for each tensor.
  const void* token(uint32_t tensor) const { return &owner_[tensor]; }

 private:
  Status FoldTies(const Checkpoint& checkpoint);
  void SpreadTensors(const Checkpoint& checkpoint, const MergeOptions& options);
  Status AddRecordedTies(const Checkpoint& checkpoint);

  Choice choice_;
  std::vector<uint32_t> order_;  // chosen tensors by name in the output
  std::vector<uint32_t> owner_;
  std::vector<size_t> file_of_;
  std::vector<std::vector<std::pair<std::string, uint32_t>>> ties_;  // by file
  std::vector<std::vector<bool>> chosen_;
  std::vector<uint64_t> bytes_;
  uint32_t recorded_ties_ = 0, folded_ = 0, casts_ = 0, dropped_ties_ = 0;
  uint64_t pieces_ = 0, stored_bytes_ = 0;
};

}  // namespace dsckpt::merge

#endif  // DSCKPT_MERGE_PLAN_H_
