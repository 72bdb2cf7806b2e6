#ifndef DSCKPT_TESTS_SUPPORT_PIECE_SAMPLES_H_
#define DSCKPT_TESTS_SUPPORT_PIECE_SAMPLES_H_

#include "format/pieces/pieces.h"

/// A box of "w" [4, 4] and two flat ranges of "b" [100] in stored tensor 0, part of "q" [12] in 1.
inline dsckpt::format::PieceColumns MakePieces() {
  dsckpt::format::PieceColumns p;
  for (const char* name : {"b", "q", "w"}) p.logical_names.Append(name);
  p.logical_dims = {100, 12, 4, 4};
  p.logical_dim_end = {1, 2, 4};
  p.tensor = {0, 0, 0, 1};
  p.logical = {2, 0, 0, 1};
  p.element_offset = {0, 8, 20, 0};
  p.form = {0, 1, 1, 0};
  p.bounds = {1, 0, 2, 4, 90, 10, 0, 4, 2, 8};
  p.bounds_end = {4, 6, 8, 10};
  p.replica_group = {7, 0, 0, 0};
  return p;
}

#endif  // DSCKPT_TESTS_SUPPORT_PIECE_SAMPLES_H_
