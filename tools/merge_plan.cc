#include "tools/merge_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "tools/interrupt.h"
#include "tools/survey.h"

namespace dsckpt::tools {

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

Result<MergePlan> MergePlan::Make(const Checkpoint& checkpoint, const Spread& spread) {
  MergePlan plan;
  for (uint32_t i = 0; i < checkpoint.tensor_count(); ++i) {
    DSCKPT_RETURN_IF_ERROR(checkpoint.CheckCoverage(i));
    DSCKPT_RETURN_IF_ERROR(checkpoint.CompareCopies(i));
  }
  DSCKPT_RETURN_IF_ERROR(plan.FoldTies(checkpoint));
  plan.SpreadTensors(checkpoint, spread);
  return plan;
}

/// Tensors of the same pieces are one stored tensor under two names.
Status MergePlan::FoldTies(const Checkpoint& checkpoint) {
  using First = std::tuple<uint32_t, uint32_t, uint64_t>;
  std::map<First, std::vector<uint32_t>> by_first;
  owner_.resize(checkpoint.tensor_count());
  std::iota(owner_.begin(), owner_.end(), 0);
  for (uint32_t i = 0; i < checkpoint.tensor_count(); ++i) {
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
      ++aliases_;
      break;
    }
    if (owner_[i] == i) candidates.push_back(i);
  }
  return Status();
}

/// In name order, so that what belongs together stays together; ties follow their owner.
void MergePlan::SpreadTensors(const Checkpoint& checkpoint, const Spread& spread) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < owner_.size(); ++i) {
    if (owner_[i] == i) total += checkpoint.tensor(i).bytes;
  }
  const auto open = [&] {
    chosen_.emplace_back(owner_.size());
    bytes_.push_back(0);
  };
  std::vector<size_t> file_of(owner_.size());
  open();
  uint64_t done = 0;
  for (uint32_t i = 0; i < owner_.size(); ++i) {
    if (owner_[i] != i) {
      file_of[i] = file_of[owner_[i]];
      chosen_[file_of[i]][i] = true;
      continue;
    }
    const uint64_t bytes = checkpoint.tensor(i).bytes;
    const bool over = spread.max_shard_bytes != 0 && bytes_.back() != 0 &&
                      bytes_.back() + bytes > spread.max_shard_bytes;
    // File k of M begins where the middle of a tensor passes k/M of all bytes.
    const double share = total == 0 ? 0
                                    : (static_cast<double>(done) + static_cast<double>(bytes) / 2) /
                                          static_cast<double>(total);
    const bool next = spread.shards != 0 && bytes_.back() != 0 &&
                      share * spread.shards >= static_cast<double>(chosen_.size());
    if (over || next) open();
    file_of[i] = chosen_.size() - 1;
    chosen_.back()[i] = true;
    bytes_.back() += bytes;
    done += bytes;
  }
}

uint64_t MergePlan::total_bytes() const {
  return std::accumulate(bytes_.begin(), bytes_.end(), uint64_t{0});
}

uint32_t MergePlan::tensors(size_t file) const {
  return static_cast<uint32_t>(std::count(chosen_[file].begin(), chosen_[file].end(), true));
}

MergeProvider::MergeProvider(const Checkpoint& checkpoint, const MergePlan& plan,
                             const MergedTree& tree, size_t file, bool rest, bool keep_encodings,
                             bool verify)
    : checkpoint_(checkpoint),
      plan_(plan),
      tree_(tree),
      file_(file),
      rest_(rest),
      keep_encodings_(keep_encodings),
      verify_(verify) {}

void MergeProvider::Describe(Description& description) const {
  tree_.Describe(
      description, plan_.chosen(file_), rest_,
      [this](Description& d, const Key& key, uint32_t tensor) { DescribeTensor(d, key, tensor); },
      [this](Description& d, const Key& key, const MergedTree::ObjectRef& object) {
        DescribeObject(d, key, object);
      });
  if (rest_) DescribeAttributes(description);
}

void MergeProvider::DescribeTensor(Description& description, const Key& key,
                                   uint32_t tensor) const {
  const LogicalTensorInfo info = checkpoint_.tensor(tensor);
  const uint32_t owner = plan_.owner(tensor);
  TensorSource source;
  // Ties share the token.
  source.data = plan_.token(owner);
  source.dtype = info.dtype.code;
  source.shape = info.shape;
  source.capture = Capture::kUntilFence;
  source.read = [this, owner](uint64_t offset, std::span<std::byte> out) -> Status {
    if (InterruptGuard::signal() != 0) return Status(StatusCode::kCancelled, "interrupted");
    return checkpoint_.ReadBytes(owner, offset, out, verify_);
  };
  if (keep_encodings_) {
    // As the first piece is stored.
    const auto pieces = checkpoint_.Pieces(owner);
    if (!pieces.empty()) {
      const auto shard = checkpoint_.OpenShard(pieces[0].shard);
      if (!shard.ok()) return description.Fail(shard.status());
      if (pieces[0].tensor < shard->tensor_count()) {
        source.encoding = shard->tensor(pieces[0].tensor).encoding;
      }
    }
  }
  description.Tensor(key, source);
}

void MergeProvider::DescribeObject(Description& description, const Key& key,
                                   const MergedTree::ObjectRef& object) const {
  const auto shard = checkpoint_.OpenShard(object.shard);
  if (!shard.ok()) return description.Fail(shard.status());
  const auto info = shard->FindObject(object.name);
  if (!info.ok()) return description.Fail(info.status());
  ObjectSource source;
  source.media_type = info->media_type;
  source.encoding = info->encoding;
  // Opened again then: a descriptor for each rank's object would be too many.
  source.write = [this, from = object.shard, name = object.name](Sink& sink) -> Status {
    DSCKPT_ASSIGN_OR_RETURN(const File file, checkpoint_.OpenShard(from));
    return file.ReadObject(name, sink);
  };
  description.Object(key, source);
}

/// Of the first rank that has each.
void MergeProvider::DescribeAttributes(Description& description) const {
  std::set<std::string> seen;
  for (uint32_t i = 0; i < checkpoint_.shard_count(); ++i) {
    const auto shard = checkpoint_.OpenShard(i);
    if (!shard.ok()) return description.Fail(shard.status());
    const auto attributes = shard->attributes();
    if (!attributes) continue;
    for (const Node& attribute : *attributes) {
      const std::string name(attribute.key().text());
      if (seen.insert(name).second) description.Attribute(name, attribute.value());
    }
  }
}

}  // namespace dsckpt::tools
