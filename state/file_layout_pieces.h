#ifndef DSCKPT_STATE_FILE_LAYOUT_PIECES_H_
#define DSCKPT_STATE_FILE_LAYOUT_PIECES_H_

#include "state/file_layout.h"

// The part of BuildFileLayout that is about pieces.

namespace dsckpt {

/// Fills the layout's pieces from the description's, with the ordinals that its items have.
/// Tensors that are tied share a stored tensor: it gets the pieces of all, and one that names none
/// while another does gets a whole one of its own name. kInvalidArgument: a logical tensor with two
/// shapes or two dtypes. REQUIRES: ties are folded, tensor columns filled.
Status FillPieces(const Description::Data& description, FileLayout& layout);

}  // namespace dsckpt

#endif  // DSCKPT_STATE_FILE_LAYOUT_PIECES_H_
