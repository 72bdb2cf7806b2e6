#include "state/file_layout.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "dsckpt/limits.h"
#include "format/checksum.h"
#include "format/header/from_index.h"
#include "format/layout.h"
#include "format/names.h"
#include "format/tree/build.h"
#include "state/file_layout_pieces.h"
#include "state/rank_own.h"
#include "state/ties.h"

namespace dsckpt {
namespace {

using Data = Description::Data;

constexpr uint8_t kNoType = std::numeric_limits<uint8_t>::max();

Status Duplicate(std::string_view name) {
  return Status(StatusCode::kAlreadyExists, "the name '" + format::Printable(name) +
                                                "' is given to two items: names are unique");
}

Status PlainUnsupported(std::string_view name, const std::string& what) {
  return Status(StatusCode::kUnsupported, "plain safetensors cannot hold '" +
                                              format::Printable(name) + "', " + what +
                                              ": save a dsckpt shard");
}

// Builds one FileLayout, a step at a time; later steps use what earlier ones filled.
class FileLayoutBuilder {
 public:
  FileLayoutBuilder(const Data& data, bool shard, const format::Metadata& metadata) : data_(data) {
    out_.shard = shard;
    out_.header.metadata = metadata;
  }

  Result<FileLayout> Build() {
    DSCKPT_RETURN_IF_ERROR(data_.walk.status);
    if (data_.walk.open.size() != 1) {
      return Status(StatusCode::kInvalidArgument, "the container '" +
                                                      format::Printable(data_.walk.prefix) +
                                                      "' is not closed: End() is missing");
    }
    for (const uint32_t i : format::SortedByName(data_.identity.tensor_names)) {
      order_.push_back(SourceIndex(i));
    }
    for (const uint32_t i : format::SortedByName(data_.identity.object_names)) {
      out_.objects.push_back(ObjectIndex(i));
    }
    DSCKPT_RETURN_IF_ERROR(CheckNames());
    DSCKPT_RETURN_IF_ERROR(format::CheckUniqueKeys(data_.tree));
    DSCKPT_RETURN_IF_ERROR(format::CheckUniqueKeys(data_.attributes));
    if (!out_.shard) DSCKPT_RETURN_IF_ERROR(CheckPlain());
    FoldTies();
    FillTensorColumns();
    FillObjectColumns();
    DSCKPT_RETURN_IF_ERROR(FillPieces(data_, out_));
    DSCKPT_ASSIGN_OR_RETURN(out_.columns.rank_own, RankOwnRoots(data_));
    if (out_.columns.rank_own.size() > 0) out_.columns.rank = data_.identity.rank_owner.value_or(0);
    DSCKPT_RETURN_IF_ERROR(CheckIndexSize());
    DSCKPT_RETURN_IF_ERROR(PlaceRaw());
    MergeAppended();
    return std::move(out_);
  }

 private:
  std::string_view TensorName(SourceIndex i) const { return data_.identity.TensorName(i); }
  std::string_view ObjectName(ObjectIndex i) const { return data_.identity.ObjectName(i); }
  bool Listed(TensorOrdinal i) const { return listable_[out_.columns.tensor_dtype[i.value()]]; }
  bool Raw(TensorOrdinal i) const {
    return out_.columns.tensors.encoding[i.value()] == static_cast<uint8_t>(Encoding::kRaw);
  }

  Status CheckNames() const {
    for (size_t i = 1; i < order_.size(); ++i) {
      if (TensorName(order_[i - 1]) == TensorName(order_[i])) {
        return Duplicate(TensorName(order_[i]));
      }
    }
    const std::vector<ObjectIndex>& objects = out_.objects;
    for (size_t i = 1; i < objects.size(); ++i) {
      if (ObjectName(objects[i - 1]) == ObjectName(objects[i])) {
        return Duplicate(ObjectName(objects[i]));
      }
    }
    for (size_t t = 0, o = 0; t < order_.size() && o < objects.size();) {
      const int order = TensorName(order_[t]).compare(ObjectName(objects[o]));
      if (order == 0) return Duplicate(TensorName(order_[t]));
      (order < 0 ? t : o) += 1;
    }
    return {};
  }

  Status CheckPlain() const {
    if (!out_.objects.empty())
      return PlainUnsupported(ObjectName(out_.objects.front()), "an object");
    if (data_.identity.rank_own_names.size() > 0) {
      return PlainUnsupported(data_.identity.rank_own_names[0],
                              "which is declared to be a rank's own");
    }
    if (data_.identity.pieces.size() > 0) {
      return PlainUnsupported(TensorName(SourceIndex(data_.identity.pieces.tensor[0])),
                              "part of logical tensor '" +
                                  format::Printable(data_.identity.pieces.logical_names[0]) + "'");
    }
    for (const SourceIndex described : order_) {
      const auto& tensor = data_.identity.tensors[described];
      if (tensor.encoding != Encoding::kRaw) {
        return PlainUnsupported(TensorName(described),
                                std::string("encoded as ") + EncodingName(tensor.encoding));
      }
      if (const DTypeInfo dtype = *FindDType(tensor.dtype); !dtype.listable) {
        return PlainUnsupported(TensorName(described), "of dtype " + std::string(dtype.name));
      }
    }
    return {};
  }

  // Splits order_ into tensors and aliases.
  void FoldTies() {
    const auto stored = FindTies(data_);
    out_.tensor_ordinal.resize(order_.size());
    out_.tensors.reserve(order_.size());
    for (const SourceIndex described : order_) {
      if (stored[described] == described) {
        out_.tensor_ordinal[described] = TensorOrAlias(TensorOrdinal(out_.tensors.size()));
        out_.tensors.push_back(described);
      } else {
        out_.tensor_ordinal[described] = TensorOrAlias(AliasOrdinal(out_.aliases.size()));
        out_.aliases.push_back(described);
      }
    }
    out_.alias_target.reserve(out_.aliases.size());
    for (const SourceIndex described : out_.aliases) {
      const TensorOrdinal target = out_.tensor_ordinal[stored[described]].tensor();
      out_.alias_target.push_back(target);
      out_.columns.alias_target.push_back(target.value());
      out_.columns.alias_names.Append(TensorName(described));
    }
  }

  // Position in the dtype column, by order of first use.
  uint8_t DTypePosition(DType dtype) {
    uint8_t& position = dtype_position_[static_cast<size_t>(dtype)];
    if (position == kNoType) {
      const DTypeInfo info = *FindDType(dtype);
      position = static_cast<uint8_t>(out_.columns.dtypes.size());
      listable_[position] = info.listable;
      out_.columns.dtypes.push_back(
          {static_cast<uint16_t>(dtype), info.bits, info.block_elements, info.block_bytes});
    }
    return position;
  }

  void FillTensorColumns() {
    format::IndexColumns& columns = out_.columns;
    const size_t count = out_.tensors.size();
    columns.tensor_names.bytes.reserve(data_.identity.tensor_names.bytes.size());
    columns.tensor_names.ends.reserve(count);
    columns.tensor_dtype.reserve(count);
    columns.dim_end.reserve(count);
    columns.dims.reserve(data_.identity.dims.size());
    out_.raw_bytes.reserve(count);
    columns.tensors.encoding.reserve(count);
    for (const SourceIndex described : out_.tensors) {
      const auto& identity = data_.identity.tensors[described];
      columns.tensor_names.Append(TensorName(described));
      columns.tensor_dtype.push_back(DTypePosition(identity.dtype));
      const auto shape = data_.Shape(described);
      columns.dims.insert(columns.dims.end(), shape.begin(), shape.end());
      columns.dim_end.push_back(static_cast<uint32_t>(columns.dims.size()));
      out_.raw_bytes.push_back(data_.sources.tensors[described].raw_bytes);
      columns.tensors.encoding.push_back(static_cast<uint8_t>(identity.encoding));
    }
    columns.tensors.raw_bytes = out_.raw_bytes;
    FillTensorChunks();
  }

  void FillTensorChunks() {
    format::PayloadColumns& payload = out_.columns.tensors;
    const size_t count = out_.tensors.size();
    payload.stored_bytes.resize(count);
    payload.chunk_end.reserve(count);
    payload.stored_chunk_end.reserve(count);
    uint64_t stored = 0;
    for (const TensorOrdinal i : PositionsOf(out_.tensors)) {
      const uint64_t chunks = format::ChunkCount(out_.raw_bytes[i]);
      sums_ += chunks;
      stored += Raw(i) ? 0 : chunks;
      if (Raw(i)) payload.stored_bytes[i.value()] = out_.raw_bytes[i];
      payload.chunk_end.push_back(static_cast<uint32_t>(sums_));
      payload.stored_chunk_end.push_back(static_cast<uint32_t>(stored));
    }
    sums_ += stored;  // One entry of equal size in each column.
  }

  void FillObjectColumns() {
    format::IndexColumns& columns = out_.columns;
    const size_t count = out_.objects.size();
    out_.object_ordinal.resize(count);
    std::array<uint8_t, kMaxDistinctTypes> position;
    std::vector<bool> used(data_.identity.media_types.size());
    for (const ObjectOrdinal i : PositionsOf(out_.objects)) {
      const ObjectIndex described = out_.objects[i];
      const auto& identity = data_.identity.objects[described];
      out_.object_ordinal[described] = i;
      columns.object_names.Append(ObjectName(described));
      if (!used[identity.media_type]) {
        used[identity.media_type] = true;
        position[identity.media_type] = static_cast<uint8_t>(columns.media_types.size());
        columns.media_types.push_back(data_.identity.media_types[identity.media_type]);
      }
      columns.object_media_type.push_back(position[identity.media_type]);
      columns.objects.encoding.push_back(static_cast<uint8_t>(identity.encoding));
      sums_ += 2 * format::ChunkCount(data_.sources.objects[described].size);
    }
    // Sizes and places of objects are the save's to fill in.
    for (auto* column :
         {&columns.objects.offset, &columns.objects.raw_bytes, &columns.objects.stored_bytes}) {
      column->resize(count);
    }
    columns.objects.chunk_end.resize(count);
    columns.objects.stored_chunk_end.resize(count);
  }

  // Before any file exists. An object of unknown size can still exceed the limit: EncodeIndex
  // checks again.
  Status CheckIndexSize() const {
    if (!out_.shard) return {};
    const format::TreeColumns* trees[] = {&data_.tree, &data_.attributes};
    uint64_t bound = format::IndexBytesBound(out_.columns) + out_.columns.tensor_names.size() * 8;
    for (const format::TreeColumns* tree : trees) {
      bound += tree->nodes.size() * sizeof(format::NodeRecord) + tree->heap.size();
      for (const std::string& tag : tree->tags) bound += tag.size() + 32;
    }
    if (sums_ <= kMaxIndexBytes / sizeof(Hash128)) bound += sums_ * sizeof(Hash128);
    if (sums_ <= kMaxIndexBytes / sizeof(Hash128) && bound <= kMaxIndexBytes) return {};
    return Status(StatusCode::kLimitExceeded,
                  "the index would exceed " + std::to_string(kMaxIndexBytes) + " bytes (" +
                      std::to_string(out_.tensors.size()) + " tensors, " + std::to_string(sums_) +
                      " checksums): save fewer items in one file");
  }

  Status PlaceRaw() {
    format::RawLayout placement;
    for (const TensorOrdinal i : PositionsOf(out_.tensors)) {
      if (Raw(i) && !placement.Count(Listed(i), out_.raw_bytes[i])) {
        return Status(StatusCode::kLimitExceeded,
                      "the tensors exceed 2^63 bytes together, at '" +
                          format::Printable(TensorName(out_.tensors[i])) + "'");
      }
    }
    OrderRaw();
    DSCKPT_RETURN_IF_ERROR(BuildHeader());
    out_.data_begin = out_.header.region.size();
    placement.Place(out_.data_begin);
    out_.offset.resize(out_.tensors.size());
    for (const TensorOrdinal i : PositionsOf(out_.tensors)) {
      if (Raw(i)) out_.offset[i] = placement.Next(Listed(i), out_.raw_bytes[i]);
    }
    out_.columns.tensors.offset = out_.offset;
    out_.tail_begin = placement.tail_begin();
    out_.unlisted_begin = placement.unlisted_begin();
    out_.placed_end = placement.raw_end();
    out_.appended_begin = placement.log_begin();
    if (placement.log_begin() > kMaxFileBytes) {
      return Status(StatusCode::kLimitExceeded, "the file would exceed 2^63 bytes");
    }
    return {};
  }

  // Listed, then unlisted; falling alignment class, then name, in each: a counting sort.
  void OrderRaw() {
    const auto bucket = [this](TensorOrdinal i) {
      const unsigned last = Listed(i) ? format::kAlignmentClasses : 2 * format::kAlignmentClasses;
      return last - 1 - format::AlignmentClass(out_.raw_bytes[i]);
    };
    std::array<uint32_t, 2 * format::kAlignmentClasses + 1> begin{};
    for (const TensorOrdinal i : PositionsOf(out_.tensors)) {
      if (Raw(i)) ++begin[bucket(i) + 1];
    }
    for (size_t b = 1; b < begin.size(); ++b) begin[b] += begin[b - 1];
    out_.listed = begin[format::kAlignmentClasses];
    out_.placed_order.resize(begin.back());
    for (const TensorOrdinal i : PositionsOf(out_.tensors)) {
      if (Raw(i)) out_.placed_order[begin[bucket(i)]++] = i;
    }
  }

  Status BuildHeader() {
    std::vector<uint32_t> listed;
    listed.reserve(out_.listed);
    for (const TensorOrdinal i : std::span(out_.placed_order).first(out_.listed)) {
      listed.push_back(i.value());
    }
    FileLayout::Header& header = out_.header;
    DSCKPT_ASSIGN_OR_RETURN(header.region,
                            format::HeaderOfIndex(format::ViewOf(out_.columns), listed, out_.shard,
                                                  header.metadata, &header.lists_tensors));
    return {};
  }

  void MergeAppended() {
    ObjectOrdinal object;
    const auto add_objects = [&](const std::string_view* limit) {
      for (; object.value() < out_.objects.size(); ++object) {
        if (limit != nullptr && out_.columns.object_names[object.value()] > *limit) break;
        out_.appended.push_back({.is_object = true, .object = object});
      }
    };
    for (const TensorOrdinal i : PositionsOf(out_.tensors)) {
      if (Raw(i)) continue;
      const std::string_view name = out_.columns.tensor_names[i.value()];
      add_objects(&name);
      out_.appended.push_back({.is_object = false, .tensor = i});
    }
    add_objects(nullptr);
  }

  const Data& data_;
  FileLayout out_;
  std::vector<SourceIndex> order_;  // The described tensors, ties included, by name.
  uint64_t sums_ = 0;               // Entries of 16 bytes in the columns that chunks fill.
  std::array<uint8_t, kMaxDistinctTypes> dtype_position_ = [] {
    std::array<uint8_t, kMaxDistinctTypes> none;
    none.fill(kNoType);
    return none;
  }();
  std::array<bool, kMaxDistinctTypes> listable_{};
};

// Ties of `description` against those that the layout folded.
bool SameTies(const FileLayout& layout, const Data& description) {
  const auto stored = FindTies(description);
  for (const SourceIndex i : PositionsOf(stored)) {
    if (layout.tensors[layout.StoredTensor(i)] != stored[i]) return false;
  }
  return true;
}

}  // namespace

Result<FileLayout> BuildFileLayout(const Data& description, bool shard,
                                   const format::Metadata& metadata) {
  return FileLayoutBuilder(description, shard, metadata).Build();
}

bool FileLayoutHolds(const FileLayout& layout, const Data& built_from, const Data& description,
                     bool shard, const format::Metadata& metadata) {
  return description.walk.status.ok() && description.walk.open.size() == 1 &&
         layout.shard == shard && layout.header.metadata == metadata &&
         SameIdentity(built_from, description) &&
         (SameMemory(built_from, description) || SameTies(layout, description));
}

format::TreeColumns ResolveTree(const Data& description, const FileLayout& layout) {
  format::TreeColumns tree = description.tree;
  for (format::NodeRecord& node : tree.nodes) {
    if (node.kind == NodeKind::kObject) {
      node.payload = layout.object_ordinal[ObjectIndex(node.payload)].value();
    } else if (node.kind == NodeKind::kTensor) {
      const TensorOrAlias item = layout.tensor_ordinal[SourceIndex(node.payload)];
      if (item.is_alias()) node.kind = NodeKind::kAlias;
      node.payload = item.is_alias() ? item.alias().value() : item.tensor().value();
    }
  }
  return tree;
}

}  // namespace dsckpt
