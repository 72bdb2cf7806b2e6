// State.

#include "dsckpt/state.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <variant>

#include "dsckpt/limits.h"
#include "format/names.h"
#include "state/description.h"

namespace dsckpt {
namespace {

constexpr uint32_t kNone = ~uint32_t{0};

// Where the bytes of an AddBytes() item are. Restores point here, so the address must not change.
struct Memory {
  std::string name;
  void* data;
  uint64_t bytes;

  Status Restore(std::span<const std::byte> stored) const {
    if (stored.size() != bytes) {
      return Status(StatusCode::kMismatch, "object '" + format::Printable(name) + "' has " +
                                               std::to_string(stored.size()) +
                                               " bytes in the file, " + std::to_string(bytes) +
                                               " in memory");
    }
    if (bytes > 0) std::memcpy(data, stored.data(), bytes);
    return {};
  }
};

// Shapes and strides, at addresses that do not change: in blocks, because a Describe() that runs
// through them must not miss the cache for each tensor.
class Dimensions {
 public:
  std::span<const int64_t> Keep(std::span<const int64_t> values) {
    if (blocks_.empty() || blocks_.back().capacity() - blocks_.back().size() < values.size()) {
      blocks_.emplace_back().reserve(std::max(values.size(), kBlock));
    }
    std::vector<int64_t>& block = blocks_.back();
    block.insert(block.end(), values.begin(), values.end());
    return std::span(block).last(values.size());
  }

 private:
  static constexpr size_t kBlock = 4096;
  std::vector<std::vector<int64_t>> blocks_;
};

// Pieces with all that they refer to, at addresses that do not change.
class Pieces {
 public:
  std::span<const Piece> Keep(std::span<const Piece> pieces) {
    if (pieces.empty()) return {};
    Kept& kept = kept_.emplace_back();
    kept.owned.reserve(pieces.size());
    kept.views.reserve(pieces.size());
    for (const Piece& piece : pieces) {
      kept.owned.push_back({std::string(piece.logical_name),
                            {piece.logical_shape.begin(), piece.logical_shape.end()},
                            piece.form,
                            {piece.box.begin(), piece.box.end()},
                            piece.flat,
                            piece.element_offset,
                            piece.replica_group});
      kept.views.push_back(kept.owned.back().view());
    }
    return kept.views;
  }

 private:
  struct Kept {
    std::vector<OwnedPiece> owned;
    std::vector<Piece> views;
  };
  std::deque<Kept> kept_;
};

struct ObjectRecord {
  ObjectSource source;
  std::string media_type;
};

using Target = std::variant<int64_t*, double*, std::string*>;

struct AttributeRecord {
  std::string name;
  Target target;
};

const char* TypeName(const Value& value) {
  static constexpr const char* kNames[] = {"null",    "a bool",  "an int",   "a big int",
                                           "a float", "complex", "a string", "bytes"};
  return kNames[value.index()];
}

template <typename T>
Status RestoreAttribute(const AttributeRecord& attribute, T* target, const Value& value) {
  if (const T* stored = std::get_if<T>(&value)) {
    *target = *stored;
    return {};
  }
  return Status(StatusCode::kMismatch, "attribute '" + format::Printable(attribute.name) + "' is " +
                                           TypeName(value) + " in the file, " +
                                           TypeName(Value(*target)) + " in memory");
}

}  // namespace

// A tree in child lists. Nodes, tensors and objects refer to one another by position.
struct State::Impl {
  enum class Kind : uint8_t { kDict, kTensor, kObject, kMemory };
  struct Node {
    Kind kind = Kind::kDict;
    bool string_key = true;
    uint32_t item = 0;  // in the array of its kind
    uint32_t first_child = kNone, last_child = kNone, next = kNone;
    int64_t integer = 0;
    std::string text;

    Key key() const { return string_key ? Key(text) : Key(integer); }
  };

  std::vector<Node> nodes{Node{}};  // Node 0 is the root.
  std::unordered_map<std::string, uint32_t> by_path;
  std::vector<TensorSource> tensors;
  Dimensions dimensions;
  Pieces pieces;
  std::vector<ObjectRecord> objects;
  std::deque<Memory> memories;
  std::deque<AttributeRecord> attributes;
  std::map<std::string, uint32_t, std::less<>> rank_own;  // by path: whose
  DescriptionSize size;
  Status status;

  void Fail(Status failure) {
    if (status.ok()) status = std::move(failure);
  }

  // Appends a child to `parent`.
  uint32_t AddNode(uint32_t parent, Kind kind, const Key& key) {
    const auto index = static_cast<uint32_t>(nodes.size());
    Node node;
    node.kind = kind;
    node.string_key = key.kind() == Key::Kind::kString;
    node.integer = key.integer();
    node.text = key.text();
    size.heap_bytes += node.text.size();
    nodes.push_back(std::move(node));
    if (nodes[parent].first_child == kNone) {
      nodes[parent].first_child = index;
    } else {
      nodes[nodes[parent].last_child].next = index;
    }
    nodes[parent].last_child = index;
    return index;
  }

  // The dict at `path`, made where it is missing, as are those above it.
  Result<uint32_t> Dict(std::string_view path) {
    if (const auto found = by_path.find(std::string(path)); found != by_path.end()) {
      if (nodes[found->second].kind == Kind::kDict) return found->second;
      return Status(StatusCode::kAlreadyExists, "'" + format::Printable(path) +
                                                    "' is registered as an item and as the dict "
                                                    "of other items");
    }
    return Add(path, Kind::kDict);
  }

  Result<uint32_t> Add(std::string_view path, Kind kind) {
    const size_t slash = path.rfind('/');
    uint32_t parent = 0;
    if (slash != std::string_view::npos) {
      DSCKPT_ASSIGN_OR_RETURN(parent, Dict(path.substr(0, slash)));
    }
    std::string storage;
    DSCKPT_ASSIGN_OR_RETURN(
        const Key key, format::ParseSegment(
                           path.substr(slash == std::string_view::npos ? 0 : slash + 1), storage));
    const auto [entry, fresh] = by_path.try_emplace(std::string(path), 0);
    if (!fresh) {
      return Status(StatusCode::kAlreadyExists,
                    "'" + format::Printable(path) + "' is registered twice");
    }
    entry->second = AddNode(parent, kind, key);
    return entry->second;
  }

  // Registers an item; `record` is stored when the path is free.
  template <typename Records, typename Record>
  void AddItem(std::string_view path, Kind kind, Records& records, Record&& record) {
    // Add() and Dict() recurse once a segment.
    if (std::count(path.begin(), path.end(), '/') >= static_cast<int64_t>(kMaxTreeDepth)) {
      return Fail(Status(StatusCode::kLimitExceeded,
                         "a name is nested deeper than " + std::to_string(kMaxTreeDepth)));
    }
    const Result<uint32_t> node = Add(path, kind);
    if (!node.ok()) return Fail(node.status());
    nodes[*node].item = static_cast<uint32_t>(records.size());
    size.name_bytes += path.size();
    records.push_back(std::forward<Record>(record));
  }

  void DescribeItem(const Node& node, Description& description) const {
    switch (node.kind) {
      case Kind::kDict:
        return description.Begin(NodeKind::kDict, node.key());
      case Kind::kTensor:
        return description.Tensor(node.key(), tensors[node.item]);
      case Kind::kObject: {
        ObjectSource source = objects[node.item].source;
        source.media_type = objects[node.item].media_type;
        return description.Object(node.key(), source);
      }
      case Kind::kMemory: {
        const Memory* memory = &memories[node.item];
        ObjectSource source;
        source.bytes = memory->data;
        source.size = memory->bytes;
        source.restore = [memory](std::span<const std::byte> stored) {
          return memory->Restore(stored);
        };
        return description.Object(node.key(), source);
      }
    }
  }

  using Owners = std::unordered_map<uint32_t, uint32_t>;

  // By node: whose own it is.
  Result<Owners> RankOwnNodes() const {
    Owners owners;
    for (const auto& [path, rank] : rank_own) {
      const auto found = by_path.find(path);
      if (found == by_path.end()) {
        return Status(StatusCode::kInvalidArgument,
                      "'" + format::Printable(path) + "' is declared to be rank " +
                          std::to_string(rank) + "'s own, but nothing is registered there");
      }
      owners.emplace(found->second, rank);
    }
    return owners;
  }

  // Iterative: the depth of names is the caller's.
  void DescribeTree(Description& description, const Owners& owners) const {
    struct Dict {
      uint32_t node;
      std::optional<uint32_t> owner_outside;
    };
    std::vector<Dict> dicts;  // Open ones below the root.
    uint32_t next = nodes[0].first_child;
    while (next != kNone || !dicts.empty()) {
      if (next == kNone) {
        description.End();
        (void)description.SetRankOwn(dicts.back().owner_outside);
        next = nodes[dicts.back().node].next;
        dicts.pop_back();
        continue;
      }
      const Node& node = nodes[next];
      std::optional<uint32_t> outside = description.data().walk.rank_own;
      if (const auto owner = owners.find(next); owner != owners.end()) {
        outside = description.SetRankOwn(owner->second);
      }
      DescribeItem(node, description);
      if (node.kind == Kind::kDict) {
        dicts.push_back({next, outside});
        next = node.first_child;
      } else {
        (void)description.SetRankOwn(outside);
        next = node.next;
      }
    }
  }

  void DescribeAttributes(Description& description) const {
    for (const AttributeRecord& attribute : attributes) {
      std::visit(
          [&](auto* target) {
            description.Attribute(attribute.name, Value(*target),
                                  [&attribute, target](const Value& value) {
                                    return RestoreAttribute(attribute, target, value);
                                  });
          },
          attribute.target);
    }
  }
};

State::State() : impl_(std::make_unique<Impl>()) {}
State::~State() = default;
State::State(State&&) noexcept = default;
State& State::operator=(State&&) noexcept = default;

void State::AddTensor(std::string_view name, void* data, DType dtype,
                      std::span<const int64_t> shape, const TensorOptions& options) {
  const size_t before = impl_->tensors.size();
  AddConstTensor(name, data, dtype, shape, options);
  if (impl_->tensors.size() > before) impl_->tensors.back().writable = true;
}

void State::AddConstTensor(std::string_view name, const void* data, DType dtype,
                           std::span<const int64_t> shape, const TensorOptions& options) {
  TensorSource source;
  source.data = data;
  source.dtype = dtype;
  source.shape = impl_->dimensions.Keep(shape);
  impl_->size.dims += shape.size();
  source.strides = impl_->dimensions.Keep(options.strides);
  source.capture = options.capture;
  source.encoding = options.encoding;
  source.owner = options.owner;
  source.pieces = impl_->pieces.Keep(options.pieces);
  impl_->AddItem(name, Impl::Kind::kTensor, impl_->tensors, std::move(source));
}

void State::AddDeviceTensor(std::string_view name, void* data, DType dtype,
                            std::span<const int64_t> shape, Stream stream,
                            const DeviceTensorOptions& options) {
  TensorSource source;
  source.data = data;
  source.dtype = dtype;
  source.shape = impl_->dimensions.Keep(shape);
  impl_->size.dims += shape.size();
  source.capture = options.capture;
  source.encoding = options.encoding;
  source.writable = true;
  source.owner = options.owner;
  source.pieces = impl_->pieces.Keep(options.pieces);
  source.device = options.device;
  source.stream = stream;
  impl_->AddItem(name, Impl::Kind::kTensor, impl_->tensors, std::move(source));
}

void State::AddBytes(std::string_view name, void* data, uint64_t bytes) {
  impl_->AddItem(name, Impl::Kind::kMemory, impl_->memories,
                 Memory{std::string(name), data, bytes});
}

void State::AddObject(std::string_view name, const ObjectSource& source) {
  impl_->AddItem(name, Impl::Kind::kObject, impl_->objects,
                 ObjectRecord{source, std::string(source.media_type)});
}

void State::RankOwn(std::string_view name, uint32_t rank) {
  const auto [mark, fresh] = impl_->rank_own.try_emplace(std::string(name), rank);
  if (fresh || mark->second == rank) return;
  impl_->Fail(Status(StatusCode::kInvalidArgument,
                     "'" + format::Printable(name) + "' is declared to be the own of rank " +
                         std::to_string(mark->second) + " and of rank " + std::to_string(rank)));
}

void State::AddAttribute(std::string_view name, int64_t* value) {
  impl_->attributes.push_back({std::string(name), value});
}
void State::AddAttribute(std::string_view name, double* value) {
  impl_->attributes.push_back({std::string(name), value});
}
void State::AddAttribute(std::string_view name, std::string* value) {
  impl_->attributes.push_back({std::string(name), value});
}

void State::Describe(Description& description) const {
  if (!impl_->status.ok()) return description.Fail(impl_->status);
  DescriptionSize size = impl_->size;
  size.tensors = impl_->tensors.size();
  size.nodes = impl_->nodes.size();
  Reserve(description.data(), size);
  const Result<Impl::Owners> owners = impl_->RankOwnNodes();
  if (!owners.ok()) return description.Fail(owners.status());
  impl_->DescribeTree(description, *owners);
  impl_->DescribeAttributes(description);
}

}  // namespace dsckpt
