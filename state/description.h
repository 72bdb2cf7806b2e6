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

#include "dsckpt/provider.h"
#include "format/columns/columns.h"

namespace dsckpt {

/// What Description collects, in the order described. Flat arrays, because a save of 100,000
/// tensors describes them again each time within milliseconds. Two halves: the identity, which
/// decides the layout and is compared with the cached one, and the sources, which may differ from
/// save to save.
struct DSCKPT_HIDDEN Description::Data {
  // Identity.
  struct TensorIdentity {
    DType dtype;
    Encoding encoding;
    uint8_t rank;
    uint32_t zero = 0;  // No padding: identities are compared as bytes.
  };
  struct ObjectIdentity {
    uint8_t media_type;  // position in media_types
    Encoding encoding;
  };
  format::NameColumns tensor_names;
  std::vector<TensorIdentity> tensors;
  std::vector<int64_t> dims;  // of all tensors, one after another
  /// In the order described, checked one by one. `tensor` is a position in this description, piece
  /// i has logical tensor i for itself: names repeat and are not sorted.
  format::PieceColumns pieces;
  format::NameColumns object_names;
  std::vector<ObjectIdentity> objects;
  std::vector<std::string> media_types;  // in order of first use
  format::NameColumns rank_own_names;    // subtrees of the rank, in the order described
  std::optional<uint32_t> rank_owner;    // which rank that is; of all of them

  // Sources.
  struct TensorSourceRecord {
    const void* data;
    uint64_t raw_bytes;
    uint32_t dims_begin;     // in dims
    uint32_t strides_begin;  // in strides; kContiguous: none
    uint32_t owner;          // position in owners + 1; 0: none
    uint32_t reader;         // position in readers + 1; 0: memory
    uint16_t producer;       // position in producers + 1; 0: host memory
    Capture capture;         // effective: small host tensors are kAtSave
    bool writable;
  };
  /// Who writes device tensors: few, however many tensors there are.
  struct Producer {
    int device;
    Stream stream;
    bool operator==(const Producer&) const = default;
  };
  static constexpr uint32_t kContiguous = ~uint32_t{0};
  struct ObjectSourceRecord {
    const void* bytes;
    uint64_t size;
    std::function<Status(Sink&)> write;
    std::function<Status(std::span<const std::byte>)> restore;
  };
  std::vector<TensorSourceRecord> tensor_sources;
  std::vector<Producer> producers;
  std::vector<std::function<Status(uint64_t, std::span<std::byte>)>> readers;
  std::vector<int64_t> strides;
  std::vector<std::shared_ptr<const void>> owners;
  std::vector<ObjectSourceRecord> object_sources;

  // Tree and attributes. Tensor nodes hold the tensor's position in this description (the layout
  // maps it to an ordinal and turns ties into aliases); object nodes likewise.
  format::TreeColumns tree, attributes;
  std::vector<std::function<Status(const Value&)>> attribute_restores;  // one an attribute

  // Walk state.
  bool flat = false;  // Description::Flat(): no tree, keys are names
  struct Open {
    uint32_t node;
    uint32_t prefix_bytes;  // of `prefix` before this container's segment
    uint32_t children;
  };
  std::vector<Open> open;
  std::string prefix;  // "a/b/" of the open containers
  Encoding default_encoding = Encoding::kRaw;
  PiecesOf default_pieces;
  std::optional<uint32_t> rank_own;  // whose own what is described now belongs to
  size_t rank_own_depth = 0;         // open containers when that began
  uint64_t rank_own_items = 0;
  Status status;
};

}  // namespace dsckpt

namespace dsckpt {
/// Host tensors up to this size are captured inside Save() whatever their class (design: copying
/// beats tracking).
inline constexpr uint64_t kSmallTensorBytes = 256 * 1024;

/// How much a provider is about to describe.
struct DescriptionSize {
  size_t tensors = 0, nodes = 0, dims = 0, name_bytes = 0, heap_bytes = 0;
};
/// Position + 1 of a producer, appended where it is new; kLimitExceeded beyond 65,535 of them.
Result<uint16_t> AddProducer(Description::Data& data, const Description::Data::Producer& producer);
/// Appends the pieces of a tensor, or those that the default gives it; kInvalidArgument names the
/// piece and the rule that it breaks. `name`: the tensor's.
Status AddPieces(Description::Data& data, std::string_view name, const TensorSource& source);
/// Makes room for it: growing arrays step by step would touch several times the memory, which is
/// what describing 100,000 tensors costs.
void Reserve(Description::Data& data, const DescriptionSize& size);
}  // namespace dsckpt

#endif  // DSCKPT_STATE_DESCRIPTION_H_
