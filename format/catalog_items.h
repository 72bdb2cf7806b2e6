#ifndef DSCKPT_FORMAT_CATALOG_ITEMS_H_
#define DSCKPT_FORMAT_CATALOG_ITEMS_H_

#include <cstdint>
#include <vector>

#include "format/description.h"

// The part of BuildCatalog that orders items and finds those that share memory.

namespace dsckpt::format {

/// Positions in `names`, in byte order of the names.
std::vector<uint32_t> SortedByName(const NameColumns& names);

/// By position in the description: the tensor under whose name it is stored, itself for most. Ties
/// are tensors of equal address, dtype, shape, strides, encoding and nonzero size; of these the one
/// with the smallest name is stored.
std::vector<uint32_t> FindTies(const Description::Data& description);

/// True when FindTies cannot differ between the two, because addresses and strides are equal.
/// REQUIRES: equal identities.
bool SameMemory(const Description::Data& a, const Description::Data& b);

/// True when the halves that decide the layout are equal.
bool SameIdentity(const Description::Data& a, const Description::Data& b);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_CATALOG_ITEMS_H_
