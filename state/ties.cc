#include "state/ties.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "format/tree/build.h"

namespace dsckpt {
namespace {

using Data = Description::Data;

static_assert(std::has_unique_object_representations_v<Data::TensorIdentity> &&
                  std::has_unique_object_representations_v<Data::ObjectIdentity>,
              "identities are compared as bytes");

template <typename T>
bool SameBytes(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

bool SameNames(const format::NameColumns& a, const format::NameColumns& b) {
  return SameBytes(a.ends, b.ends) && a.bytes == b.bytes;
}

// Null for contiguous tensors.
const int64_t* Strides(const Data& data, SourceIndex tensor) {
  const uint32_t begin = data.sources.tensors[tensor].strides_begin;
  return begin == Data::kContiguous ? nullptr : data.sources.strides.data() + begin;
}

bool SameStrides(const Data& a, SourceIndex i, const Data& b, SourceIndex j, size_t rank) {
  const int64_t* x = Strides(a, i);
  const int64_t* y = Strides(b, j);
  if (x == nullptr || y == nullptr) return x == y;
  return std::equal(x, x + rank, y);
}

// REQUIRES: same address.
bool Tied(const Data& data, SourceIndex a, SourceIndex b) {
  if (std::memcmp(&data.identity.tensors[a], &data.identity.tensors[b],
                  sizeof data.identity.tensors[a]) != 0)
    return false;
  const auto shape_a = data.Shape(a), shape_b = data.Shape(b);
  return std::equal(shape_a.begin(), shape_a.end(), shape_b.begin()) &&
         SameStrides(data, a, data, b, shape_a.size());
}

bool SamePieces(const format::PieceColumns& a, const format::PieceColumns& b) {
  return SameBytes(a.tensor, b.tensor) && SameNames(a.logical_names, b.logical_names) &&
         SameBytes(a.logical_dim_end, b.logical_dim_end) &&
         SameBytes(a.logical_dims, b.logical_dims) &&
         SameBytes(a.element_offset, b.element_offset) && SameBytes(a.form, b.form) &&
         SameBytes(a.bounds_end, b.bounds_end) && SameBytes(a.bounds, b.bounds) &&
         SameBytes(a.replica_group, b.replica_group);
}

}  // namespace

OrdinalVector<SourceIndex, SourceIndex> FindTies(const Data& data) {
  struct Entry {
    uintptr_t address;
    SourceIndex tensor;
  };
  OrdinalVector<SourceIndex, SourceIndex> stored(data.identity.tensors.size());
  std::vector<Entry> entries;
  entries.reserve(stored.size());
  for (const SourceIndex i : PositionsOf(stored)) {
    stored[i] = i;
    const auto& source = data.sources.tensors[i];
    if (source.raw_bytes > 0) entries.push_back({reinterpret_cast<uintptr_t>(source.data), i});
  }
  const auto by_address = [](const Entry& a, const Entry& b) { return a.address < b.address; };
  if (!std::is_sorted(entries.begin(), entries.end(), by_address)) {
    std::sort(entries.begin(), entries.end(), by_address);
  }
  const format::NameColumns& names = data.identity.tensor_names;
  for (auto run = entries.begin(); run != entries.end();) {
    const auto end = std::find_if(run, entries.end(),
                                  [run](const Entry& e) { return e.address != run->address; });
    // Names decide within a run, so that the first of each group is the one to store.
    if (end - run > 1) {
      std::sort(run, end, [&names](const Entry& a, const Entry& b) {
        return names[a.tensor.value()] < names[b.tensor.value()];
      });
    }
    for (auto entry = run; entry != end; ++entry) {
      const auto leader = std::find_if(run, entry, [&](const Entry& earlier) {
        return stored[earlier.tensor] == earlier.tensor &&
               Tied(data, earlier.tensor, entry->tensor);
      });
      if (leader != entry) stored[entry->tensor] = leader->tensor;
    }
    run = end;
  }
  return stored;
}

bool SameMemory(const Data& a, const Data& b) {
  const bool strides = !a.sources.strides.empty() || !b.sources.strides.empty();
  for (const SourceIndex i : PositionsOf(a.identity.tensors)) {
    if (a.sources.tensors[i].data != b.sources.tensors[i].data) return false;
    if (strides && !SameStrides(a, i, b, i, a.identity.tensors[i].rank)) return false;
  }
  return true;
}

bool SameIdentity(const Data& a, const Data& b) {
  return SameNames(a.identity.tensor_names, b.identity.tensor_names) &&
         SameBytes(a.identity.tensors, b.identity.tensors) &&
         SameBytes(a.identity.dims, b.identity.dims) &&
         SamePieces(a.identity.pieces, b.identity.pieces) &&
         SameNames(a.identity.object_names, b.identity.object_names) &&
         SameBytes(a.identity.objects, b.identity.objects) &&
         a.identity.media_types == b.identity.media_types &&
         SameNames(a.identity.rank_own_names, b.identity.rank_own_names) &&
         a.identity.rank_owner == b.identity.rank_owner && format::SameKeys(a.tree, b.tree) &&
         format::SameKeys(a.attributes, b.attributes);
}

}  // namespace dsckpt
