#include "state/ties.h"

#include <algorithm>
#include <cstring>
#include <numeric>
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
const int64_t* Strides(const Data& data, uint32_t tensor) {
  const uint32_t begin = data.tensor_sources[tensor].strides_begin;
  return begin == Data::kContiguous ? nullptr : data.strides.data() + begin;
}

bool SameStrides(const Data& a, uint32_t i, const Data& b, uint32_t j, size_t rank) {
  const int64_t* x = Strides(a, i);
  const int64_t* y = Strides(b, j);
  if (x == nullptr || y == nullptr) return x == y;
  return std::equal(x, x + rank, y);
}

// REQUIRES: same address.
bool Tied(const Data& data, uint32_t a, uint32_t b) {
  if (std::memcmp(&data.tensors[a], &data.tensors[b], sizeof data.tensors[a]) != 0) return false;
  const size_t rank = data.tensors[a].rank;
  const int64_t* shape_a = data.dims.data() + data.tensor_sources[a].dims_begin;
  const int64_t* shape_b = data.dims.data() + data.tensor_sources[b].dims_begin;
  return std::equal(shape_a, shape_a + rank, shape_b) && SameStrides(data, a, data, b, rank);
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

std::vector<uint32_t> FindTies(const Data& data) {
  struct Entry {
    uintptr_t address;
    uint32_t tensor;
  };
  std::vector<uint32_t> stored(data.tensors.size());
  std::iota(stored.begin(), stored.end(), 0);
  std::vector<Entry> entries;
  entries.reserve(stored.size());
  for (const uint32_t i : stored) {
    const auto& source = data.tensor_sources[i];
    if (source.raw_bytes > 0) entries.push_back({reinterpret_cast<uintptr_t>(source.data), i});
  }
  const auto by_address = [](const Entry& a, const Entry& b) { return a.address < b.address; };
  if (!std::is_sorted(entries.begin(), entries.end(), by_address)) {
    std::sort(entries.begin(), entries.end(), by_address);
  }
  const format::NameColumns& names = data.tensor_names;
  for (auto run = entries.begin(); run != entries.end();) {
    const auto end = std::find_if(run, entries.end(),
                                  [run](const Entry& e) { return e.address != run->address; });
    // Names decide within a run, so that the first of each group is the one to store.
    if (end - run > 1) {
      std::sort(run, end, [&names](const Entry& a, const Entry& b) {
        return names[a.tensor] < names[b.tensor];
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
  const bool strides = !a.strides.empty() || !b.strides.empty();
  for (uint32_t i = 0; i < a.tensors.size(); ++i) {
    if (a.tensor_sources[i].data != b.tensor_sources[i].data) return false;
    if (strides && !SameStrides(a, i, b, i, a.tensors[i].rank)) return false;
  }
  return true;
}

bool SameIdentity(const Data& a, const Data& b) {
  return SameNames(a.tensor_names, b.tensor_names) && SameBytes(a.tensors, b.tensors) &&
         SameBytes(a.dims, b.dims) && SamePieces(a.pieces, b.pieces) &&
         SameNames(a.object_names, b.object_names) && SameBytes(a.objects, b.objects) &&
         a.media_types == b.media_types && SameNames(a.rank_own_names, b.rank_own_names) &&
         a.rank_owner == b.rank_owner && format::SameKeys(a.tree, b.tree) &&
         format::SameKeys(a.attributes, b.attributes);
}

}  // namespace dsckpt
