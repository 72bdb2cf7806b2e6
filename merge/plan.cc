#include "merge/plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "merge/cast.h"
#include "merge/checkpoint_health.h"
#include "merge/metadata.h"
#include "merge/select/selection.h"

namespace dsckpt::merge {

namespace {

bool SamePieces(const std::vector<PieceLocation>& a, const std::vector<PieceLocation>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](const PieceLocation& x, const PieceLocation& y) {
        return x.shard == y.shard && x.tensor == y.tensor && x.piece.form == y.piece.form &&
               x.piece.box == y.piece.box && x.piece.flat == y.piece.flat &&
               x.piece.element_offset == y.piece.element_offset;
      });
}

bool SameShape(const LogicalTensorInfo& a, const LogicalTensorInfo& b) {
  return a.dtype.code == b.dtype.code &&
         std::equal(a.shape.begin(), a.shape.end(), b.shape.begin(), b.shape.end());
}

}  // namespace

Result<Choice> MakeChoice(const Checkpoint& checkpoint, const TensorSelection& selection) {
  std::vector<std::string_view> names;
  for (uint32_t i = 0; i < checkpoint.tensor_count(); ++i) {
    names.push_back(checkpoint.tensor(i).name);
  }
  bool paths = false;
  for (uint32_t i = 0; i < checkpoint.shard_count() && !paths; ++i) {
    DSCKPT_ASSIGN_OR_RETURN(const File shard, checkpoint.OpenShard(i));
    paths = shard.tree().has_value();
  }
  if (selection.dtype && !CanCast(*selection.dtype)) {
    return Status(StatusCode::kInvalidArgument,
                  "tensors are cast to F16, BF16, F32 or F64, and to no other dtype");
  }
  Choice choice;
  DSCKPT_ASSIGN_OR_RETURN(choice.names, SelectNames(selection, names, paths));
  choice.renamed = selection.renames_any();
  choice.tensors_only = selection.names.any() || selection.renames_any();
  choice.dtype = selection.dtype;
  return choice;
}

Result<MergePlan> MergePlan::Make(const Checkpoint& checkpoint, Choice choice,
                                  const MergeOptions& options, Cancellation& cancellation) {
  MergePlan plan;
  plan.choice_ = std::move(choice);
  for (uint32_t i = 0; i < checkpoint.tensor_count(); ++i) {
    if (!plan.choice_.names[i]) continue;
    DSCKPT_RETURN_IF_ERROR(cancellation.Check());
    DSCKPT_RETURN_IF_ERROR(checkpoint.CheckCoverage(i));
    DSCKPT_RETURN_IF_ERROR(checkpoint.CompareCopies(i));
    const LogicalTensorInfo info = checkpoint.tensor(i);
    plan.casts_ += plan.dtype(info) != info.dtype.code;
    plan.order_.push_back(i);
  }
  std::stable_sort(plan.order_.begin(), plan.order_.end(),
                   [&](uint32_t a, uint32_t b) { return plan.name(a) < plan.name(b); });
  DSCKPT_RETURN_IF_ERROR(plan.FoldTies(checkpoint));
  plan.SpreadTensors(checkpoint, options);
  DSCKPT_RETURN_IF_ERROR(plan.AddRecordedTies(checkpoint));
  return plan;
}

DType MergePlan::dtype(const LogicalTensorInfo& tensor) const {
  return choice_.dtype && CanCast(tensor.dtype.code) ? *choice_.dtype : tensor.dtype.code;
}

uint64_t MergePlan::bytes_of(const LogicalTensorInfo& tensor) const {
  const DType wanted = dtype(tensor);
  if (wanted == tensor.dtype.code) return tensor.bytes;
  return tensor.bytes / tensor.dtype.block_bytes * FindDType(wanted)->block_bytes;
}

/// Tensors of the same pieces are one stored tensor under two names.
Status MergePlan::FoldTies(const Checkpoint& checkpoint) {
  using First = std::tuple<uint32_t, uint32_t, uint64_t>;
  std::map<First, std::vector<uint32_t>> by_first;
  owner_.resize(checkpoint.tensor_count());
  std::iota(owner_.begin(), owner_.end(), 0);
  for (const uint32_t i : order_) {
    const auto info = checkpoint.tensor(i);
    const auto pieces = checkpoint.Pieces(i);
    pieces_ += pieces.size();
    for (const PieceLocation& piece : pieces) {
      stored_bytes_ += PieceBytes(info, piece.piece);
    }
    if (pieces.empty() || info.bytes == 0) continue;
    auto& candidates =
        by_first[{pieces[0].shard, pieces[0].tensor, pieces[0].piece.element_offset}];
    for (const uint32_t other : candidates) {
      if (!SameShape(info, checkpoint.tensor(other))) continue;
      if (!SamePieces(pieces, checkpoint.Pieces(other))) continue;
      owner_[i] = other;
      ++folded_;
      break;
    }
    if (owner_[i] == i) candidates.push_back(i);
  }
  return Status();
}

/// In name order, so that what belongs together stays together; ties follow their owner.
void MergePlan::SpreadTensors(const Checkpoint& checkpoint, const MergeOptions& options) {
  uint64_t total = 0;
  for (const uint32_t i : order_) {
    if (owner_[i] == i) total += bytes_of(checkpoint.tensor(i));
  }
  const auto open = [&] {
    chosen_.emplace_back(owner_.size());
    bytes_.push_back(0);
  };
  file_of_.resize(owner_.size());
  open();
  uint64_t done = 0;
  for (const uint32_t i : order_) {
    if (owner_[i] != i) {
      file_of_[i] = file_of_[owner_[i]];
      chosen_[file_of_[i]][i] = true;
      continue;
    }
    const uint64_t bytes = bytes_of(checkpoint.tensor(i));
    const bool over = options.max_shard_bytes != 0 && bytes_.back() != 0 &&
                      bytes_.back() + bytes > options.max_shard_bytes;
    // File k of M begins where the middle of a tensor passes k/M of all bytes.
    const double share = total == 0 ? 0
                                    : (static_cast<double>(done) + static_cast<double>(bytes) / 2) /
                                          static_cast<double>(total);
    const bool next = options.shards != 0 && bytes_.back() != 0 &&
                      share * options.shards >= static_cast<double>(chosen_.size());
    if (over || next) open();
    file_of_[i] = chosen_.size() - 1;
    chosen_.back()[i] = true;
    bytes_.back() += bytes;
    done += bytes;
  }
}

/// Second names that plain safetensors record. They are no logical tensors, so that a selection
/// does not ask about them: each goes with its tensor, unless that gets another name.
Status MergePlan::AddRecordedTies(const Checkpoint& checkpoint) {
  ties_.resize(chosen_.size());
  std::set<std::string> seen;
  for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) {
    DSCKPT_ASSIGN_OR_RETURN(const File shard, checkpoint.OpenShard(i));
    if (shard.format() != FileFormat::kSafetensors) continue;
    DSCKPT_ASSIGN_OR_RETURN(const FileMetadata metadata, ReadMetadata(shard));
    for (const Tie& tie : metadata.ties) {
      const auto owner = checkpoint.FindTensor(tie.owner);
      if (!owner.ok() || checkpoint.FindTensor(tie.name).ok()) continue;
      if (!choice_.names[owner->ordinal] || !seen.insert(tie.name).second) continue;
      if (choice_.renamed) {
        ++dropped_ties_;
        continue;
      }
      ties_[file_of_[owner->ordinal]].emplace_back(tie.name, owner->ordinal);
      ++recorded_ties_;
    }
  }
  return {};
}

uint64_t MergePlan::total_bytes() const {
  return std::accumulate(bytes_.begin(), bytes_.end(), uint64_t{0});
}

uint32_t MergePlan::tensors(size_t file) const {
  return static_cast<uint32_t>(std::count(chosen_[file].begin(), chosen_[file].end(), true));
}

}  // namespace dsckpt::merge
