#include "state/description.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "dsckpt/limits.h"
#include "format/names.h"
#include "format/tree/build.h"
#include "state/strided.h"

namespace dsckpt {
namespace {

using format::NodeRecord;
using Data = Description::Data;

constexpr uint64_t kMaxColumn = std::numeric_limits<uint32_t>::max();

// What names the item in its path: its key, or its position in a list.
Key Segment(const Data& data, const Key& key) {
  const Data::OpenContainer& parent = data.walk.open.back();
  return data.tree.nodes[parent.node].kind == NodeKind::kDict ? key : Key(int64_t{parent.children});
}

// The full name of an item under `key` in the innermost container.
void AppendItemName(const Data& data, const Key& key, std::string& out) {
  if (data.walk.flat) {
    out += key.text();
    return;
  }
  out += data.walk.prefix;
  format::AppendSegment(out, Segment(data, key));
}

std::string Where(const Data& data, const Key& key) {
  std::string path;
  AppendItemName(data, key, path);
  return "'" + format::Printable(path) + "'";
}

Status Invalid(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}

// Puts the path in front of a message that lacks it.
Status At(const Data& data, const Key& key, const Status& status) {
  return status.ok() ? Status() : Status(status.code(), Where(data, key) + ": " + status.message());
}

Status CheckKey(const Data& data, const Key& key) {
  if (data.walk.flat) {
    return key.kind() == Key::Kind::kString ? Status() : Invalid("a flat item needs a string key");
  }
  const bool in_dict = data.tree.nodes[data.walk.open.back().node].kind == NodeKind::kDict;
  if (in_dict == (key.kind() != Key::Kind::kNone)) return {};
  return Invalid(in_dict ? "members of a dict need a key"
                         : "members of a list or tuple have no key: their position names them");
}

// Appends `node` under the innermost container.
Status AddNode(Data& data, const Key& key, std::string_view tag, format::NodeRecord node) {
  if (data.tree.nodes.size() >= kMaxItems) {
    return Status(StatusCode::kLimitExceeded, "the tree has too many nodes");
  }
  DSCKPT_RETURN_IF_ERROR(CheckKey(data, key));
  if (data.walk.flat) {
    const bool item = node.kind == NodeKind::kTensor || node.kind == NodeKind::kObject;
    return item ? Status() : Invalid("a flat description holds tensors and objects only");
  }
  DSCKPT_RETURN_IF_ERROR(format::SetKey(data.tree, key, node));
  DSCKPT_RETURN_IF_ERROR(format::SetTag(data.tree, tag, node));
  Data::OpenContainer& parent = data.walk.open.back();
  ++parent.children;
  ++data.tree.nodes[parent.node].children;
  ++data.tree.nodes[0].payload;  // The root is never closed: its count of nodes below is kept here.
  data.tree.nodes.push_back(node);
  return {};
}

Status AppendName(const Data& data, const Key& key, format::NameColumns& names) {
  const size_t begin = names.bytes.size();
  AppendItemName(data, key, names.bytes);
  if (names.bytes.size() > kMaxColumn) {
    return Status(StatusCode::kLimitExceeded, "all names together exceed 4 GiB");
  }
  names.ends.push_back(static_cast<uint32_t>(names.bytes.size()));
  return format::CheckItemName(std::string_view(names.bytes).substr(begin));
}

// Notes the name of a subtree, or of an item, that is a rank's own, unless it lies in one. Comes
// before AddNode(), which counts list positions on.
Status NoteRankOwn(Data& data, const Key& key) {
  if (!data.walk.rank_own || data.walk.open.size() > data.walk.rank_own_depth) return {};
  return AppendName(data, key, data.identity.rank_own_names);
}

// The encoding to use: the one asked for, or the default where none was.
Result<Encoding> EffectiveEncoding(const Data& data, Encoding asked, bool planes) {
  if (asked > Encoding::kBytePlaneZstd) {
    return Invalid("unknown encoding " + std::to_string(static_cast<unsigned>(asked)));
  }
  if (asked == Encoding::kBytePlaneZstd && !planes) {
    return Invalid("byte planes need a floating dtype of whole bytes: use Encoding::kZstd");
  }
  if (asked != Encoding::kRaw) return asked;
  if (data.walk.default_encoding == Encoding::kBytePlaneZstd && !planes) return Encoding::kZstd;
  return data.walk.default_encoding;
}

// Byte distances inside the tensor must be computable.
Status CheckStrideRange(const TensorSource& source, uint32_t element_bytes) {
  uint64_t span = 1;
  for (size_t i = 0; i < source.shape.size(); ++i) {
    const int64_t stride = source.strides[i];
    const uint64_t step = stride < 0 ? 0 - static_cast<uint64_t>(stride) : stride;
    uint64_t reach = 0;
    if (__builtin_mul_overflow(step, static_cast<uint64_t>(source.shape[i] - 1), &reach) ||
        __builtin_add_overflow(span, reach, &span)) {
      return Invalid("the strides reach beyond the address space");
    }
  }
  if (span > uint64_t{std::numeric_limits<int64_t>::max()} / element_bytes) {
    return Invalid("the strides reach beyond the address space");
  }
  return {};
}

// Sets strides_begin, unless the strides say nothing that the shape does not.
Status AddStrides(Data& data, const TensorSource& source, const DTypeInfo& dtype,
                  Data::TensorSourceRecord& record) {
  if (source.strides.size() != source.shape.size()) {
    return Invalid(std::to_string(source.strides.size()) + " strides for " +
                   std::to_string(source.shape.size()) + " dimensions");
  }
  if (record.raw_bytes == 0 || IsContiguous(source.shape, source.strides)) return {};
  if (dtype.block_elements != 1) {
    return Invalid("tensors of " + std::string(dtype.name) + " must be contiguous");
  }
  DSCKPT_RETURN_IF_ERROR(CheckStrideRange(source, dtype.block_bytes));
  if (data.sources.strides.size() + source.strides.size() >= kMaxColumn) {
    return Status(StatusCode::kLimitExceeded, "all strides together exceed 2^32 - 1 entries");
  }
  record.strides_begin = static_cast<uint32_t>(data.sources.strides.size());
  data.sources.strides.insert(data.sources.strides.end(), source.strides.begin(),
                              source.strides.end());
  return {};
}

OptionalOrdinal<Data::OwnerTag> AddOwner(Data& data, const std::shared_ptr<const void>& owner) {
  if (owner == nullptr) return {};
  // Tensors of one allocation tend to follow one another.
  if (data.sources.owners.empty() || data.sources.owners.back() != owner)
    data.sources.owners.push_back(owner);
  return OptionalOrdinal<Data::OwnerTag>(data.sources.owners.size() - 1);
}

Status AddTensor(Data& data, const Key& key, const TensorSource& source, std::string_view tag) {
  const auto dtype = FindDType(source.dtype);
  if (!dtype) {
    return Invalid("unknown dtype " + std::to_string(static_cast<unsigned>(source.dtype)));
  }
  if (source.shape.size() > kMaxRank) {
    return Status(StatusCode::kLimitExceeded, std::to_string(source.shape.size()) +
                                                  " dimensions, at most " +
                                                  std::to_string(kMaxRank) + " are possible");
  }
  Data::TensorSourceRecord record{};
  DSCKPT_ASSIGN_OR_RETURN(record.raw_bytes, TensorBytes(*dtype, source.shape));
  if (record.raw_bytes > 0 && source.data == nullptr) {
    return Invalid("the data is null, but the shape takes " + std::to_string(record.raw_bytes) +
                   " bytes");
  }
  DSCKPT_ASSIGN_OR_RETURN(Encoding encoding,
                          EffectiveEncoding(data, source.encoding, dtype->floating));
  // Nothing to encode; and raw tensors are those that stock loaders see.
  if (record.raw_bytes == 0) encoding = Encoding::kRaw;
  record.strides_begin = Data::kContiguous;
  const bool on_device = source.device != kHostMemory;
  if (!source.strides.empty()) {
    DSCKPT_RETURN_IF_ERROR(AddStrides(data, source, *dtype, record));
  }
  if (on_device && record.strides_begin != Data::kContiguous) {
    return Status(StatusCode::kUnsupported,
                  "device tensors with gaps or reordered dimensions cannot be captured: give a "
                  "contiguous one");
  }
  if (source.read) {
    if (on_device || record.strides_begin != Data::kContiguous) {
      return Invalid("a tensor made by a read callback is contiguous and in host memory");
    }
    record.reader = OptionalOrdinal<Data::ReaderTag>(data.sources.readers.size());
    data.sources.readers.push_back(source.read);
  }
  if (on_device && record.raw_bytes > 0) {
    DSCKPT_ASSIGN_OR_RETURN(record.producer, AddProducer(data, {source.device, source.stream}));
  }
  if (data.identity.dims.size() + source.shape.size() > kMaxColumn) {
    return Status(StatusCode::kLimitExceeded, "all shapes together exceed 2^32 - 1 dimensions");
  }
  const format::NodeRecord node{.kind = NodeKind::kTensor, .payload = data.identity.tensors.size()};
  DSCKPT_RETURN_IF_ERROR(AppendName(data, key, data.identity.tensor_names));
  DSCKPT_RETURN_IF_ERROR(NoteRankOwn(data, key));
  DSCKPT_RETURN_IF_ERROR(AddNode(data, key, tag, node));
  if (data.walk.rank_own) ++data.walk.rank_own_items;
  if (!source.pieces.empty() || data.walk.default_pieces || data.walk.rank_own) {
    const uint32_t last = data.identity.tensor_names.size() - 1;
    // A copy: a function of the caller's may describe more.
    const std::string name(data.identity.tensor_names[last]);
    DSCKPT_RETURN_IF_ERROR(AddPieces(data, name, source));
  }
  record.data = source.data;
  record.dims_begin = static_cast<uint32_t>(data.identity.dims.size());
  record.owner = AddOwner(data, source.owner);
  const bool small = !record.producer && record.raw_bytes <= kSmallTensorBytes;
  record.capture = small ? Capture::kAtSave : source.capture;
  if (record.reader) record.capture = Capture::kUntilFence;
  record.writable = source.writable;
  data.identity.dims.insert(data.identity.dims.end(), source.shape.begin(), source.shape.end());
  data.identity.tensors.push_back(
      {source.dtype, encoding, static_cast<uint8_t>(source.shape.size())});
  data.sources.tensors.push_back(record);
  return {};
}

Result<uint8_t> AddMediaType(Data& data, std::string_view media_type) {
  const auto found =
      std::find(data.identity.media_types.begin(), data.identity.media_types.end(), media_type);
  const auto position = static_cast<size_t>(found - data.identity.media_types.begin());
  if (found != data.identity.media_types.end()) return static_cast<uint8_t>(position);
  if (position == kMaxDistinctTypes) {
    return Status(StatusCode::kLimitExceeded, "more than 256 distinct media types");
  }
  if (media_type.size() > kMaxNameBytes || !format::IsValidUtf8(media_type)) {
    return Invalid("the media type is too long or not valid UTF-8");
  }
  data.identity.media_types.emplace_back(media_type);
  return static_cast<uint8_t>(position);
}

Status AddObject(Data& data, const Key& key, const ObjectSource& source, std::string_view tag) {
  if (source.write && (source.bytes != nullptr || source.size != 0)) {
    return Invalid("an object has either bytes or a write callback");
  }
  if (source.bytes == nullptr && source.size != 0) {
    return Invalid("the bytes are null, but the size is " + std::to_string(source.size));
  }
  DSCKPT_ASSIGN_OR_RETURN(const Encoding encoding, EffectiveEncoding(data, source.encoding, false));
  DSCKPT_ASSIGN_OR_RETURN(const uint8_t media_type, AddMediaType(data, source.media_type));
  const format::NodeRecord node{.kind = NodeKind::kObject, .payload = data.identity.objects.size()};
  DSCKPT_RETURN_IF_ERROR(AppendName(data, key, data.identity.object_names));
  DSCKPT_RETURN_IF_ERROR(NoteRankOwn(data, key));
  DSCKPT_RETURN_IF_ERROR(AddNode(data, key, tag, node));
  if (data.walk.rank_own) ++data.walk.rank_own_items;
  data.identity.objects.push_back({media_type, encoding});
  data.sources.objects.push_back({source.bytes, source.size, source.write, source.restore});
  return {};
}

Status OpenContainer(Data& data, NodeKind kind, const Key& key, std::string_view tag) {
  if (!format::IsContainer(kind)) return Invalid("Begin() takes a dict, a list or a tuple");
  if (data.walk.open.size() == kMaxTreeDepth) {
    return Status(StatusCode::kLimitExceeded,
                  "nested deeper than " + std::to_string(kMaxTreeDepth));
  }
  const Key segment = data.walk.flat ? key : Segment(data, key);
  DSCKPT_RETURN_IF_ERROR(NoteRankOwn(data, key));
  DSCKPT_RETURN_IF_ERROR(AddNode(data, key, tag, format::NodeRecord{.kind = kind}));
  data.walk.open.push_back({static_cast<uint32_t>(data.tree.nodes.size() - 1),
                            static_cast<uint32_t>(data.walk.prefix.size()), 0});
  format::AppendSegment(data.walk.prefix, segment);
  data.walk.prefix += '/';
  return {};
}

Status AddLeaf(Data& data, const Key& key, const Value& value, std::string_view tag) {
  format::NodeRecord node;
  DSCKPT_RETURN_IF_ERROR(format::SetValue(data.tree, value, node));
  DSCKPT_RETURN_IF_ERROR(NoteRankOwn(data, key));
  return AddNode(data, key, tag, node);
}

Status AddAttribute(Data& data, std::string_view name, const Value& value) {
  format::TreeColumns& attributes = data.attributes;
  if (attributes.nodes.empty()) attributes.nodes.push_back({.kind = NodeKind::kDict});
  format::NodeRecord node;
  DSCKPT_RETURN_IF_ERROR(format::SetKey(attributes, Key(name), node));
  DSCKPT_RETURN_IF_ERROR(format::SetValue(attributes, value, node));
  attributes.nodes.push_back(node);
  ++attributes.nodes[0].children;
  ++attributes.nodes[0].payload;
  return {};
}

}  // namespace

Description::Description() : data_(std::make_unique<Data>()) {
  data_->tree.nodes.push_back({.kind = NodeKind::kDict});
  data_->walk.open.push_back({0, 0, 0});
}
Description::~Description() = default;
Description::Description(Description&&) noexcept = default;
Description& Description::operator=(Description&&) noexcept = default;

void Description::Flat() {
  if (!data_->walk.status.ok()) return;
  if (data_->tree.nodes.size() > 1) {
    return Fail(Invalid("Flat() comes before anything is described"));
  }
  data_->walk.flat = true;
  data_->tree.nodes.clear();
}

void Description::Begin(NodeKind kind, Key key, std::string_view tag) {
  if (!data_->walk.status.ok()) return;
  if (Status status = OpenContainer(*data_, kind, key, tag); !status.ok()) {
    Fail(At(*data_, key, status));
  }
}

void Description::End() {
  if (!data_->walk.status.ok()) return;
  if (data_->walk.open.size() == 1) return Fail(Invalid("End() without a Begin()"));
  const Data::OpenContainer closed = data_->walk.open.back();
  data_->walk.open.pop_back();
  data_->tree.nodes[closed.node].payload = data_->tree.nodes.size() - 1 - closed.node;
  data_->walk.prefix.resize(closed.prefix_bytes);
}

void Description::Tensor(Key key, const TensorSource& source, std::string_view tag) {
  if (!data_->walk.status.ok()) return;
  if (Status status = AddTensor(*data_, key, source, tag); !status.ok()) {
    Fail(At(*data_, key, status));
  }
}

void Description::Object(Key key, const ObjectSource& source, std::string_view tag) {
  if (!data_->walk.status.ok()) return;
  if (Status status = AddObject(*data_, key, source, tag); !status.ok()) {
    Fail(At(*data_, key, status));
  }
}

void Description::Leaf(Key key, const Value& value, std::string_view tag) {
  if (!data_->walk.status.ok()) return;
  if (Status status = AddLeaf(*data_, key, value, tag); !status.ok()) {
    Fail(At(*data_, key, status));
  }
}

void Description::Attribute(std::string_view name, const Value& value,
                            std::function<Status(const Value&)> restore) {
  if (!data_->walk.status.ok()) return;
  if (Status status = AddAttribute(*data_, name, value); !status.ok()) {
    return Fail(
        Status(status.code(), "attribute '" + format::Printable(name) + "': " + status.message()));
  }
  data_->attribute_restores.push_back(std::move(restore));
}

Encoding Description::SetDefaultEncoding(Encoding encoding) {
  if (encoding > Encoding::kBytePlaneZstd) {
    Fail(Invalid("unknown encoding " + std::to_string(static_cast<unsigned>(encoding))));
    return data_->walk.default_encoding;
  }
  return std::exchange(data_->walk.default_encoding, encoding);
}

PiecesOf Description::SetDefaultPieces(PiecesOf pieces) {
  return std::exchange(data_->walk.default_pieces, std::move(pieces));
}

std::optional<uint32_t> Description::SetRankOwn(std::optional<uint32_t> rank) {
  const std::optional<uint32_t> before = data_->walk.rank_own;
  const bool inside = before.has_value() && data_->walk.open.size() > data_->walk.rank_own_depth;
  if (rank && data_->identity.rank_owner.value_or(*rank) != *rank) {
    Fail(Invalid("one state holds what is rank " + std::to_string(*data_->identity.rank_owner) +
                 "'s own and what is rank " + std::to_string(*rank) + "'s own"));
  } else if (!rank && inside) {
    Fail(Invalid("all below what is a rank's own is its own: '" +
                 format::Printable(data_->walk.prefix) + "'"));
  }
  if (!before) data_->walk.rank_own_depth = data_->walk.open.size();
  if (rank) data_->identity.rank_owner = rank;
  data_->walk.rank_own = rank;
  return before;
}

void Description::Fail(Status status) {
  if (data_->walk.status.ok()) data_->walk.status = std::move(status);
}

const Status& Description::status() const { return data_->walk.status; }

}  // namespace dsckpt

namespace dsckpt {

Result<Data::ProducerRef> AddProducer(Data& data, const Data::Producer& producer) {
  auto& all = data.sources.producers;
  // Tensors of one producer tend to follow one another.
  auto found = std::find(all.rbegin(), all.rend(), producer);
  if (found == all.rend()) {
    if (all.size() >= std::numeric_limits<uint16_t>::max()) {
      return Status(StatusCode::kLimitExceeded, "more than 65,535 devices and streams");
    }
    all.push_back(producer);
    found = all.rbegin();
  }
  return Data::ProducerRef(static_cast<size_t>(all.rend() - found) - 1);
}

void Reserve(Description::Data& data, const DescriptionSize& size) {
  // Only on an empty description: exact reservations one after another would copy each time.
  if (!data.identity.tensors.empty()) return;
  data.identity.tensors.reserve(size.tensors);
  data.sources.tensors.reserve(size.tensors);
  data.identity.tensor_names.bytes.reserve(size.name_bytes);
  data.identity.tensor_names.ends.reserve(size.tensors);
  data.identity.dims.reserve(size.dims);
  data.tree.nodes.reserve(size.nodes);
  data.tree.heap.reserve(size.heap_bytes);
}

}  // namespace dsckpt
