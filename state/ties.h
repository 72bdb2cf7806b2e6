#ifndef DSCKPT_STATE_TIES_H_
#define DSCKPT_STATE_TIES_H_

#include <cstdint>
#include <vector>

#include "state/description.h"

// Which described tensors share memory, and whether two descriptions lead to the same layout.

namespace dsckpt {

/// For each tensor that under whose name it is stored, itself for most. Ties
/// are tensors of equal address, dtype, shape, strides, encoding and nonzero size; of these the one
/// with the smallest name is stored.
OrdinalVector<SourceIndex, SourceIndex> FindTies(const Description::Data& description);

/// True when FindTies cannot differ between the two, because addresses and strides are equal.
/// REQUIRES: equal identities.
bool SameMemory(const Description::Data& a, const Description::Data& b);

/// True when the identities, and the keys of the trees, are equal: they decide the layout.
bool SameIdentity(const Description::Data& a, const Description::Data& b);

}  // namespace dsckpt

#endif  // DSCKPT_STATE_TIES_H_
