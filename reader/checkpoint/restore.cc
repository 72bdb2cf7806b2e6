// Checkpoint::Restore: fills the memory that a provider describes with parts of logical tensors,
// and with the objects and attributes of one rank, from however many shards hold them.

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "format/rank_own.h"
#include "reader/checkpoint/box_reader.h"
#include "reader/checkpoint/checkpoint_impl.h"
#include "reader/checkpoint/own_subtrees.h"
#include "reader/chunk/device_load.h"
#include "reader/chunk/reader.h"
#include "reader/file/file_impl.h"
#include "reader/restore_match.h"
#include "state/description.h"
#include "state/strided.h"

namespace dsckpt {

namespace {

/// A stretch of a described tensor's row-major bytes, and the box of a logical tensor that fills
/// it.
struct Stretch {
  std::string_view logical;
  reader::Box box;
  uint64_t begin = 0, bytes = 0;
};

/// Matches a description with the logical tensors of a checkpoint, then moves everything.
class CheckpointRestorer {
 public:
  CheckpointRestorer(const Checkpoint::Impl& checkpoint, const Description::Data& wanted,
                     uint32_t rank)
      : checkpoint_(checkpoint),
        wanted_(wanted),
        rank_(rank),
        own_(wanted),
        match_(wanted, "checkpoint") {}

  Status Match(const RestoreOptions& options) {
    if (own_.of_another(rank_)) {
      return Status(StatusCode::kInvalidArgument, "the state describes what is rank " +
                                                      std::to_string(*wanted_.identity.rank_owner) +
                                                      "'s own, but rank " + std::to_string(rank_) +
                                                      " is restored: give both the same rank");
    }
    DSCKPT_RETURN_IF_ERROR(OpenRank());
    MatchTensors();
    MatchObjects();
    DSCKPT_RETURN_IF_ERROR(compared_);
    MatchAttributes();
    own_.ForEachMissing([&](std::string_view item) { match_.AddMissing(item); });
    Status outcome = match_.Outcome(options.partial);
    if (!outcome.ok()) return std::move(outcome).WithPath(checkpoint_.path);
    if (!unshared_.empty() && !options.partial) return NotShared();
    const std::vector<std::string> without = own_.Without();
    if (options.without_own == nullptr && !without.empty()) return NoneOfItsOwn(without);
    if (options.without_own != nullptr) *options.without_own = without;
    return Status();
  }

  Status Move(bool verify) const {
    DSCKPT_RETURN_IF_ERROR(MoveDirect(verify));
    for (const auto& [tensor, parts] : staged_) {
      DSCKPT_RETURN_IF_ERROR(MoveStaged(tensor, parts, verify));
    }
    return match_.Move();
  }

 private:
  /// Objects and attributes: from this rank's shards, else from those of rank 0.
  Status OpenRank() {
    DSCKPT_ASSIGN_OR_RETURN(files_, OpenShardsOf(rank_));
    own_files_ = files_.size();
    if (rank_ == 0) return Status();
    DSCKPT_ASSIGN_OR_RETURN(const auto first, OpenShardsOf(0));
    files_.insert(files_.end(), first.begin(), first.end());
    if (own_files_ != 0) return Status();
    const auto ranks = checkpoint_.manifest.shard_rank;
    uint32_t other = 0;  // The lowest above 0.
    for (const uint32_t rank : ranks) {
      if (rank != 0 && (other == 0 || rank < other)) other = rank;
    }
    if (other == 0) return Status();
    DSCKPT_ASSIGN_OR_RETURN(others_, OpenShardsOf(other));
    return Status();
  }

  Result<std::vector<File>> OpenShardsOf(uint32_t rank) const {
    std::vector<File> files;
    for (uint32_t i = 0; i < checkpoint_.manifest.shard_count(); ++i) {
      if (checkpoint_.manifest.shard_rank[i] != rank) continue;
      DSCKPT_ASSIGN_OR_RETURN(File file, checkpoint_.OpenShard(i));
      files.push_back(std::move(file));
    }
    return files;
  }

  void MatchTensors() {
    const format::PieceView pieces = format::ViewOf(wanted_.identity.pieces);
    uint32_t next = 0;  // Pieces stand in the order of the tensors.
    for (uint32_t i = 0; i < wanted_.identity.tensors.size(); ++i) {
      const uint32_t first = next;
      while (next < pieces.size() && pieces.tensor[next] == i) ++next;
      std::vector<Stretch> parts =
          next == first ? WholeTensor(i) : PiecesOf(i, pieces, first, next);
      if (parts.empty()) continue;
      if (match_.IsWritable(i)) Accept(i, std::move(parts));
    }
  }

  /// The logical tensor, unless it is missing or differs; both are noted.
  std::optional<LogicalTensorInfo> Find(uint32_t i, std::string_view logical,
                                        std::span<const int64_t> shape) {
    const format::NameView& names = checkpoint_.manifest.pieces.logical_names;
    auto found = names.Find(logical);
    const bool own = own_.Note(wanted_.identity.tensor_names[i], found.has_value());
    // The state need not say what the checkpoint says: that it is this rank's own.
    if (!found && !own) found = names.Find(RankOwnName(rank_, logical));
    if (!found) {
      if (!own) match_.AddMissing(logical);
      return std::nullopt;
    }
    const LogicalTensorInfo info = checkpoint_.Info(*found);
    if (!match_.FitsTensor(i, logical, shape, info.dtype.code, info.shape)) return std::nullopt;
    return info;
  }

  std::vector<Stretch> WholeTensor(uint32_t i) {
    const std::string_view name = wanted_.identity.tensor_names[i];
    const auto info = Find(i, name, match_.Shape(i));
    if (!info) return {};
    const auto frame = reader::FrameShape(info->shape, info->dtype.block_elements);
    return {{info->name, reader::WholeBox(frame), 0, info->bytes}};
  }

  /// Boxes that fill the tensor; of pieces that hold the same elements the first.
  std::vector<Stretch> PiecesOf(uint32_t i, const format::PieceView& pieces, uint32_t first,
                                uint32_t last) {
    std::vector<Stretch> parts;
    for (uint32_t p = first; p < last; ++p) {
      const auto piece = pieces.Get(p);
      const auto info = Find(i, piece->logical_name, piece->logical_shape);
      if (!info) continue;
      const uint32_t block = info->dtype.block_elements;
      reader::ForEachBox(*piece, block, [&](const reader::Box& box, uint64_t element_offset) {
        const auto in_bytes = [&](uint64_t elements) {
          return elements / block * info->dtype.block_bytes;
        };
        const uint64_t begin = in_bytes(element_offset);
        const uint64_t bytes = in_bytes(reader::Volume(box));
        const auto overlaps = [&](const Stretch& other) {
          return begin < other.begin + other.bytes && other.begin < begin + bytes;
        };
        if (std::any_of(parts.begin(), parts.end(), overlaps)) return;
        parts.push_back({info->name, box, begin, bytes});
      });
    }
    return parts;
  }

  void Accept(uint32_t i, std::vector<Stretch> parts) {
    const auto& source = wanted_.sources.tensors[SourceIndex(i)];
    const bool direct = source.strides_begin == Description::Data::kContiguous && !source.producer;
    if (!direct) {
      staged_.emplace_back(i, std::move(parts));
      return;
    }
    auto* const memory = static_cast<std::byte*>(const_cast<void*>(source.data));
    for (Stretch& part : parts) {
      direct_parts_.push_back(std::move(part));
      const Stretch& kept = direct_parts_.back();
      direct_.push_back({kept.logical, kept.box, false, {memory + kept.begin, kept.bytes}});
    }
  }

  Status MoveDirect(bool verify) const { return reader::ReadBoxes(checkpoint_, direct_, verify); }

  /// Strided or device memory: part by part, through the host. What no piece covers (padding) stays
  /// as it is.
  Status MoveStaged(uint32_t tensor, const std::vector<Stretch>& parts, bool verify) const {
    const auto& source = wanted_.sources.tensors[SourceIndex(tensor)];
    for (const Stretch& part : parts) {
      std::vector<std::byte> image(part.bytes);
      const BoxRequest request{part.logical, part.box, false, image};
      DSCKPT_RETURN_IF_ERROR(reader::ReadBoxes(checkpoint_, std::span(&request, 1), verify));
      if (source.producer) {
        DSCKPT_RETURN_IF_ERROR(Upload(source, part, image));
        continue;
      }
      auto* const memory = static_cast<std::byte*>(const_cast<void*>(source.data));
      Scatter({.data = memory,
               .element_bytes =
                   FindDType(wanted_.identity.tensors[SourceIndex(tensor)].dtype)->block_bytes,
               .shape = match_.Shape(tensor),
               .strides = std::span(wanted_.sources.strides)
                              .subspan(source.strides_begin,
                                       wanted_.identity.tensors[SourceIndex(tensor)].rank)},
              part.begin, image);
    }
    return Status();
  }

  Status Upload(const Description::Data::TensorSourceRecord& source, const Stretch& part,
                std::span<const std::byte> image) const {
    const auto [device, stream] = wanted_.sources.producers[source.producer.value()];
    auto* const memory = static_cast<std::byte*>(const_cast<void*>(source.data));
    const LoadRequest request{.name = part.logical,
                              .data = memory + part.begin,
                              .bytes = image.size(),
                              .device = device,
                              .stream = stream};
    DSCKPT_ASSIGN_OR_RETURN(const auto load, reader::DeviceLoad::Begin(std::span(&request, 1)));
    if (load == nullptr) return Status();
    reader::StoredItem item;
    item.kind = "tensor";
    item.name = part.logical;
    item.raw_bytes = item.stored_bytes = image.size();
    reader::Scratch scratch;
    for (uint64_t chunk = 0; chunk < item.chunk_count(); ++chunk) {
      const auto bytes = image.subspan(chunk * kChunkBytes, item.raw_length(chunk));
      DSCKPT_RETURN_IF_ERROR(load->PlaceChunk(item, chunk, bytes, 0, false, scratch));
    }
    return Status();
  }

  void MatchObjects() {
    match_.MatchObjects([&](std::string_view name) {
      const auto found = own_.Has(name) ? FindOwnObject(name) : FindSharedObject(name);
      const bool own = own_.Note(name, found.has_value());
      if (!found && !own && !IsUnshared(name)) match_.AddMissing(name);
      return found;
    });
  }

  /// This rank's shards hold it under its name; a merged checkpoint under that of a rank's own.
  std::optional<reader::FoundObject> FindOwnObject(std::string_view name) const {
    for (size_t i = 0; i < own_files_; ++i) {
      const auto info = files_[i].FindObject(name);
      if (info.ok() && files_[i].IsRankOwn(name)) return reader::FoundObject{&files_[i], *info};
    }
    const std::string merged = RankOwnName(rank_, name);
    for (const File& file : files_) {
      const auto info = file.FindObject(merged);
      if (info.ok()) return reader::FoundObject{&file, *info};
    }
    return std::nullopt;
  }

  /// Rank 0 stands in for a rank without the object, but not with what is rank 0's own, and for a
  /// rank that wrote nothing at all only with what ranks share.
  std::optional<reader::FoundObject> FindSharedObject(std::string_view name) {
    if (own_files_ == 0) {  // A merged checkpoint holds what was this rank's elsewhere.
      const std::string merged = RankOwnName(rank_, name);
      for (const File& file : files_) {
        if (const auto info = file.FindObject(merged); info.ok()) {
          return reader::FoundObject{&file, *info};
        }
      }
    }
    for (size_t i = 0; i < files_.size(); ++i) {
      const auto info = files_[i].FindObject(name);
      if (!info.ok() || (i >= own_files_ && files_[i].IsRankOwn(name))) continue;
      if (own_files_ == 0 && DiffersElsewhere(files_[i], *info)) {
        unshared_.emplace_back(name);
        return std::nullopt;
      }
      return reader::FoundObject{&files_[i], *info};
    }
    return std::nullopt;
  }

  /// Whether another rank than 0 has another object of that name. One other rank stands for all:
  /// what differs between the two is not what all ranks share.
  bool DiffersElsewhere(const File& file, const ObjectInfo& object) {
    for (const File& other : others_) {
      const auto info = other.FindObject(object.name);
      if (!info.ok() || other.IsRankOwn(object.name)) continue;
      const Result<bool> same = SameObject(file, object, other, *info);
      if (!same.ok()) compared_ = same.status();
      if (!same.ok() || !*same) return true;
    }
    return file.FindObject(RankOwnName(1, object.name)).ok();  // Merged: rank 1 had another.
  }

  bool IsUnshared(std::string_view name) const {
    return std::find(unshared_.begin(), unshared_.end(), name) != unshared_.end();
  }

  Status NotShared() const {
    ShortList names;
    for (const std::string& name : unshared_) names.AddName(name);
    return Status(StatusCode::kNotFound,
                  "rank " + std::to_string(rank_) + " saved nothing here, and " + names.Text() +
                      " differs from rank to rank: RestoreOptions::partial leaves it as it is, and "
                      "Restore() of another rank takes that rank's; mark it with RankOwn() where "
                      "it is saved")
        .WithPath(checkpoint_.path);
  }

  Status NoneOfItsOwn(const std::vector<std::string>& without) const {
    ShortList names;
    for (const std::string& name : without) names.AddName(name);
    return Status(StatusCode::kNotFound,
                  "rank " + std::to_string(rank_) + " saved nothing of its own here: " +
                      names.Text() + "; " + reader::OwnersOf(checkpoint_, without[0]) +
                      ". RestoreOptions::without_own leaves such state as it is; RankOwn() and "
                      "Restore() of another rank take that rank's")
        .WithPath(checkpoint_.path);
  }

  void MatchAttributes() {
    match_.MatchAttributes([&](std::string_view name) -> std::optional<Value> {
      for (const File& file : files_) {
        auto value = file.Attribute(name);
        if (value.ok()) return std::move(value).value();
      }
      return std::nullopt;
    });
  }

  const Checkpoint::Impl& checkpoint_;
  const Description::Data& wanted_;
  const uint32_t rank_;
  reader::OwnSubtrees own_;
  std::vector<File> files_;  // Those of this rank first.
  size_t own_files_ = 0;
  std::vector<File> others_;  // Of one other rank than 0, where this rank wrote nothing.
  Status compared_;           // Whether objects of two ranks could be compared.
  std::vector<std::string> unshared_;
  reader::RestoreMatch match_;
  std::deque<Stretch> direct_parts_;  // What direct_ borrows from.
  std::vector<BoxRequest> direct_;
  std::vector<std::pair<uint32_t, std::vector<Stretch>>> staged_;
};

}  // namespace

Status Checkpoint::Restore(const StateProvider& provider, uint32_t rank,
                           const RestoreOptions& options) const {
  Description description;
  provider.Describe(description);
  DSCKPT_RETURN_IF_ERROR(description.status());
  CheckpointRestorer restorer(*impl_, description.data(), rank);
  DSCKPT_RETURN_IF_ERROR(restorer.Match(options));
  return restorer.Move(options.load.verify);
}

}  // namespace dsckpt
