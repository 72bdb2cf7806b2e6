#ifndef DSCKPT_READER_CHECKPOINT_COMPARE_COPIES_H_
#define DSCKPT_READER_CHECKPOINT_COMPARE_COPIES_H_

// Whether all copies of a logical tensor's elements are equal, declared replicas included.

#include <cstdint>

#include "reader/checkpoint/checkpoint_impl.h"

namespace dsckpt::reader {

/// Checkpoint::CompareCopies().
Status CompareCopies(const Checkpoint::Impl& checkpoint, uint32_t tensor);

}  // namespace dsckpt::reader

#endif  // DSCKPT_READER_CHECKPOINT_COMPARE_COPIES_H_
