// A provider's memory from a checkpoint of any number of ranks.

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "format/rank_own.h"
#include "reader/checkpoint/checkpoint_impl.h"
#include "reader/checkpoint/own_subtrees.h"
#include "reader/chunk/device_load.h"
#include "reader/chunk/reader.h"
#include "reader/file/file_impl.h"
#include "reader/name_list.h"
#include "state/description.h"
#include "state/strided.h"

namespace dsckpt {

namespace {

using reader::NameList;

/// A stretch of a described tensor's row-major bytes, and the box of a logical tensor that fills
/// it.
struct Part {
  std::string_view logical;
  reader::Box box;
  uint64_t begin = 0, bytes = 0;
};

/// Matches a description with the logical tensors of a checkpoint, then moves everything.
class CheckpointRestorer {
 public:
  CheckpointRestorer(const Checkpoint::Impl& checkpoint, const Description::Data& wanted,
                     uint32_t rank)
      : checkpoint_(checkpoint), wanted_(wanted), rank_(rank), own_(wanted) {}

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
    MatchAttributes();
    own_.SayMissing(missing_);
    std::string message;
    different_.Say("different in checkpoint and state: ", message);
    if (!options.partial) missing_.Say("not in the checkpoint: ", message);
    if (!message.empty()) {
      return Status(StatusCode::kMismatch,
                    "the checkpoint does not fit the state to restore: " + message)
          .WithPath(checkpoint_.path);
    }
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
    for (const auto& [position, found] : objects_) {
      DSCKPT_ASSIGN_OR_RETURN(const auto bytes, found.file->ReadObject(found.info.name));
      DSCKPT_RETURN_IF_ERROR(wanted_.sources.objects[ObjectIndex(position)].restore(bytes));
    }
    for (const auto& [position, value] : attributes_) {
      DSCKPT_RETURN_IF_ERROR(wanted_.attribute_restores[position](value));
    }
    return Status();
  }

 private:
  /// Objects and attributes: from this rank's shards, else from those of rank 0.
  Status OpenRank() {
    for (const uint32_t rank : {rank_, uint32_t{0}}) {
      for (uint32_t i = 0; i < checkpoint_.manifest.shard_count(); ++i) {
        if (checkpoint_.manifest.shard_rank[i] != rank) continue;
        DSCKPT_ASSIGN_OR_RETURN(File file, checkpoint_.OpenShard(i));
        files_.push_back(std::move(file));
        own_files_ += rank == rank_ ? 1 : 0;
      }
      if (rank_ == 0) break;
    }
    return Status();
  }

  std::span<const int64_t> Shape(uint32_t i) const { return wanted_.Shape(SourceIndex(i)); }

  void MatchTensors() {
    const format::PieceView pieces = format::ViewOf(wanted_.identity.pieces);
    uint32_t next = 0;  // Pieces stand in the order of the tensors.
    for (uint32_t i = 0; i < wanted_.identity.tensors.size(); ++i) {
      const uint32_t first = next;
      while (next < pieces.size() && pieces.tensor[next] == i) ++next;
      std::vector<Part> parts = next == first ? WholeTensor(i) : PiecesOf(i, pieces, first, next);
      if (parts.empty()) continue;
      if (!wanted_.sources.tensors[SourceIndex(i)].writable) {
        different_.Add(wanted_.identity.tensor_names[i], "the state's memory is read-only");
        continue;
      }
      Accept(i, std::move(parts));
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
      if (!own) missing_.Add(logical);
      return std::nullopt;
    }
    const LogicalTensorInfo info = checkpoint_.Info(*found);
    const auto dtype = FindDType(wanted_.identity.tensors[SourceIndex(i)].dtype);
    if (!dtype || info.dtype.code != dtype->code) {
      different_.Add(logical, "dtype " + std::string(info.dtype.name) + " and " +
                                  std::string(dtype ? dtype->name : "unknown"));
      return std::nullopt;
    }
    if (!std::equal(shape.begin(), shape.end(), info.shape.begin(), info.shape.end())) {
      different_.Add(logical,
                     "shape " + reader::ShapeText(info.shape) + " and " + reader::ShapeText(shape));
      return std::nullopt;
    }
    return info;
  }

  std::vector<Part> WholeTensor(uint32_t i) {
    const std::string_view name = wanted_.identity.tensor_names[i];
    const auto info = Find(i, name, Shape(i));
    if (!info) return {};
    const auto frame = reader::FrameShape(info->shape, info->dtype.block_elements);
    return {{info->name, reader::WholeBox(frame), 0, info->bytes}};
  }

  /// Boxes that fill the tensor; of pieces that hold the same elements the first.
  std::vector<Part> PiecesOf(uint32_t i, const format::PieceView& pieces, uint32_t first,
                             uint32_t last) {
    std::vector<Part> parts;
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
        const auto overlaps = [&](const Part& other) {
          return begin < other.begin + other.bytes && other.begin < begin + bytes;
        };
        if (std::any_of(parts.begin(), parts.end(), overlaps)) return;
        parts.push_back({info->name, box, begin, bytes});
      });
    }
    return parts;
  }

  void Accept(uint32_t i, std::vector<Part> parts) {
    const auto& source = wanted_.sources.tensors[SourceIndex(i)];
    const bool direct = source.strides_begin == Description::Data::kContiguous && !source.producer;
    if (!direct) {
      staged_.emplace_back(i, std::move(parts));
      return;
    }
    auto* const memory = static_cast<std::byte*>(const_cast<void*>(source.data));
    for (Part& part : parts) {
      direct_parts_.push_back(std::move(part));
      const Part& kept = direct_parts_.back();
      direct_.push_back({kept.logical, kept.box, false, {memory + kept.begin, kept.bytes}});
    }
  }

  Status MoveDirect(bool verify) const { return reader::ReadBoxes(checkpoint_, direct_, verify); }

  /// Strided or device memory: part by part, through the host. What no piece covers (padding) stays
  /// as it is.
  Status MoveStaged(uint32_t tensor, const std::vector<Part>& parts, bool verify) const {
    const auto& source = wanted_.sources.tensors[SourceIndex(tensor)];
    for (const Part& part : parts) {
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
               .shape = Shape(tensor),
               .strides = std::span(wanted_.sources.strides)
                              .subspan(source.strides_begin,
                                       wanted_.identity.tensors[SourceIndex(tensor)].rank)},
              part.begin, image);
    }
    return Status();
  }

  Status Upload(const Description::Data::TensorSourceRecord& source, const Part& part,
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
    for (uint32_t i = 0; i < wanted_.identity.objects.size(); ++i) {
      const auto& source = wanted_.sources.objects[ObjectIndex(i)];
      if (!source.restore) continue;
      const std::string_view name = wanted_.identity.object_names[i];
      const auto found = own_.Has(name) ? FindOwnObject(name) : FindSharedObject(name);
      const bool own = own_.Note(name, found.has_value());
      if (!found) {
        if (!own) missing_.Add(name);
        continue;
      }
      const uint64_t stored = found->info.raw_bytes;
      if (source.bytes != nullptr && source.size != stored) {
        different_.Add(name,
                       std::to_string(stored) + " and " + std::to_string(source.size) + " bytes");
      } else {
        objects_.emplace_back(i, *found);
      }
    }
  }

  struct FoundObject {
    const File* file;
    ObjectInfo info;
  };

  /// This rank's shards hold it under its name; a merged checkpoint under that of a rank's own.
  std::optional<FoundObject> FindOwnObject(std::string_view name) const {
    for (size_t i = 0; i < own_files_; ++i) {
      const auto info = files_[i].FindObject(name);
      if (info.ok() && files_[i].IsRankOwn(name)) return FoundObject{&files_[i], *info};
    }
    const std::string merged = RankOwnName(rank_, name);
    for (const File& file : files_) {
      const auto info = file.FindObject(merged);
      if (info.ok()) return FoundObject{&file, *info};
    }
    return std::nullopt;
  }

  /// Rank 0 stands in for a rank without the object, but not with what is rank 0's own.
  std::optional<FoundObject> FindSharedObject(std::string_view name) const {
    for (size_t i = 0; i < files_.size(); ++i) {
      const auto info = files_[i].FindObject(name);
      if (!info.ok() || (i >= own_files_ && files_[i].IsRankOwn(name))) continue;
      return FoundObject{&files_[i], *info};
    }
    return std::nullopt;
  }

  Status NoneOfItsOwn(const std::vector<std::string>& without) const {
    NameList names;
    for (const std::string& name : without) names.Add(name);
    return Status(StatusCode::kNotFound,
                  "rank " + std::to_string(rank_) + " saved nothing of its own here: " +
                      names.Text() + "; " + reader::OwnersOf(checkpoint_, without[0]) +
                      ". RestoreOptions::without_own leaves such state as it is; RankOwn() and "
                      "Restore() of another rank take that rank's")
        .WithPath(checkpoint_.path);
  }

  void MatchAttributes() {
    for (uint32_t i = 0; i < wanted_.attribute_restores.size(); ++i) {
      if (!wanted_.attribute_restores[i]) continue;
      const std::string_view name = reader::AttributeName(wanted_, i);
      bool found = false;
      for (const File& file : files_) {
        auto value = file.Attribute(name);
        if (!value.ok()) continue;
        attributes_.emplace_back(i, std::move(value).value());
        found = true;
        break;
      }
      if (!found) missing_.Add(name);
    }
  }

  const Checkpoint::Impl& checkpoint_;
  const Description::Data& wanted_;
  const uint32_t rank_;
  reader::OwnSubtrees own_;
  std::vector<File> files_;  // Those of this rank first.
  size_t own_files_ = 0;
  NameList different_, missing_;
  std::deque<Part> direct_parts_;  // What direct_ borrows from.
  std::vector<BoxRequest> direct_;
  std::vector<std::pair<uint32_t, std::vector<Part>>> staged_;
  std::vector<std::pair<uint32_t, FoundObject>> objects_;
  std::vector<std::pair<uint32_t, Value>> attributes_;
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
