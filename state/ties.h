#ifndef DSCKPT_STATE_TIES_H_
#define DSCKPT_STATE_TIES_H_

#include <cstdint>
#include <vector>

#include "state/description.h"

// Which described tensors share memory, and whether two descriptions lead to the same layout.

namespace dsckpt {

/// By position in the description: the tensor under whose name it is stored, itself for most. Ties
/// are tensors of equal address, dtype, shape, strides, encoding and nonzero size; of these the one
/// with the smallest name is stored.
std::vector<uint32_t> FindTies(const Description::Data& description);

/// True when FindTies cannot differ between the two, because addresses and strides are equal.
/// REQUIRES: equal identities.
bool SameMemory(const Description::Data& a, const Description::Data& b);

/// True when the halves that decide the layout are equal.
bool SameIdentity(const Description::Data& a, const Description::Data& b);

}  // namespace dsckpt

#endif  // DSCKPT_STATE_TIES_H_
