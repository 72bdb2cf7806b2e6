#ifndef DSCKPT_STATE_DESCRIPTION_H_
#define DSCKPT_STATE_DESCRIPTION_H_

// What providers append: identity, sources, tree.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ordinal.h"
#include "dsckpt/provider.h"
#include "format/columns/columns.h"

namespace dsckpt {

/// Positions in a description, of tensors and of objects, in the order described.
using SourceIndex = Ordinal<struct SourceIndexTag>;
using ObjectIndex = Ordinal<struct ObjectIndexTag>;

/// What Description collects, in the order described. Flat arrays, because a save of 100,000
/// tensors describes them again each time within milliseconds.
struct DSCKPT_HIDDEN Description::Data {
  struct TensorIdentity {
    DType dtype;
    Encoding encoding;
    uint8_t rank;
    uint32_t zero = 0;  // No padding: identities are compared as bytes.
  };
  struct ObjectIdentity {
    uint8_t media_type;  // Position in media_types.
    Encoding encoding;
  };
  /// Decides the layout; compared with that of the layout at hand.
  struct Identity {
    format::NameColumns tensor_names;
    OrdinalVector<SourceIndex, TensorIdentity> tensors;
    std::vector<int64_t> dims;  // Of all tensors, one after another.
    /// In the order described, checked one by one. `tensor` is a SourceIndex, piece i has logical
    /// tensor i for itself: names repeat and are not sorted.
    format::PieceColumns pieces;
    format::NameColumns object_names;
    OrdinalVector<ObjectIndex, ObjectIdentity> objects;
    std::vector<std::string> media_types;  // In order of first use.
    format::NameColumns rank_own_names;    // Subtrees of the rank, in the order described.
    std::optional<uint32_t> rank_owner;    // Which rank that is; of all of them.

    std::string_view TensorName(SourceIndex i) const { return tensor_names[i.value()]; }
    std::string_view ObjectName(ObjectIndex i) const { return object_names[i.value()]; }
  };

  struct OwnerTag;
  struct ReaderTag;
  using ProducerRef = OptionalOrdinal<struct ProducerTag, uint16_t>;
  static constexpr uint32_t kContiguous = ~uint32_t{0};
  struct TensorSourceRecord {
    const void* data;
    uint64_t raw_bytes;
    uint32_t dims_begin;                // In Identity::dims.
    uint32_t strides_begin;             // In Sources::strides, or kContiguous.
    OptionalOrdinal<OwnerTag> owner;    // In Sources::owners.
    OptionalOrdinal<ReaderTag> reader;  // In Sources::readers; none: memory.
    ProducerRef producer;               // In Sources::producers; none: host memory.
    Capture capture;                    // The effective one: small host tensors are kAtSave.
    bool writable;
  };
  /// Who writes device tensors: few, however many tensors there are.
  struct Producer {
    int device;
    Stream stream;
    bool operator==(const Producer&) const = default;
  };
  struct ObjectSourceRecord {
    const void* bytes;
    uint64_t size;
    std::function<Status(Sink&)> write;
    std::function<Status(std::span<const std::byte>)> restore;
  };
  /// Where the bytes come from, which may differ from save to save.
  struct Sources {
    OrdinalVector<SourceIndex, TensorSourceRecord> tensors;
    std::vector<Producer> producers;
    std::vector<std::function<Status(uint64_t, std::span<std::byte>)>> readers;
    std::vector<int64_t> strides;
    std::vector<std::shared_ptr<const void>> owners;
    OrdinalVector<ObjectIndex, ObjectSourceRecord> objects;

    /// REQUIRES: the tensor lies on a device.
    const Producer& ProducerOf(SourceIndex i) const {
      return producers[tensors[i].producer.value()];
    }
  };

  struct OpenContainer {
    uint32_t node;
    uint32_t prefix_bytes;  // Of `prefix` before this container's segment.
    uint32_t children;
  };
  /// Where a provider is in its description.
  struct Walk {
    bool flat = false;  // Description::Flat(): no tree, keys are names.
    std::vector<OpenContainer> open;
    std::string prefix;  // "a/b/" of the open containers.
    Encoding default_encoding = Encoding::kRaw;
    PiecesOf default_pieces;
    std::optional<uint32_t> rank_own;  // Whose own what is described now belongs to.
    size_t rank_own_depth = 0;         // Open containers when that began.
    uint64_t rank_own_items = 0;
    Status status;
  };

  /// The shape of a tensor.
  std::span<const int64_t> Shape(SourceIndex i) const {
    return std::span(identity.dims)
        .subspan(sources.tensors[i].dims_begin, identity.tensors[i].rank);
  }

  Identity identity;
  Sources sources;
  /// Tensor nodes hold a SourceIndex (the layout maps it to an ordinal and turns ties into
  /// aliases), object nodes an ObjectIndex.
  format::TreeColumns tree, attributes;
  std::vector<std::function<Status(const Value&)>> attribute_restores;  // One an attribute.
  Walk walk;
};

/// Host tensors up to this size are captured inside Save() whatever their class (copying
/// beats tracking).
inline constexpr uint64_t kSmallTensorBytes = 256 * 1024;

/// How much a provider is about to describe.
struct DescriptionSize {
  size_t tensors = 0, nodes = 0, dims = 0, name_bytes = 0, heap_bytes = 0;
};
/// The position of a producer, appended where it is new; kLimitExceeded beyond 65,535 of them.
Result<Description::Data::ProducerRef> AddProducer(Description::Data& data,
                                                   const Description::Data::Producer& producer);
/// Appends the pieces of a tensor, or those that the default gives it; kInvalidArgument names the
/// piece and the rule that it breaks. `name`: the tensor's.
Status AddPieces(Description::Data& data, std::string_view name, const TensorSource& source);
/// Makes room for it: growing arrays step by step would touch several times the memory, which is
/// what describing 100,000 tensors costs.
void Reserve(Description::Data& data, const DescriptionSize& size);
}  // namespace dsckpt

#endif  // DSCKPT_STATE_DESCRIPTION_H_
