#ifndef DSCKPT_FORMAT_CATALOG_PIECES_H_
#define DSCKPT_FORMAT_CATALOG_PIECES_H_

#include "format/catalog.h"

// The part of BuildCatalog that is about pieces.

namespace dsckpt::format {

/// Fills the catalog's pieces from the description's, with the ordinals that its items have.
/// Tensors that are tied share a stored tensor: it gets the pieces of all, and one that names none
/// while another does gets a whole one of its own name. kInvalidArgument: a logical tensor with two
/// shapes or two dtypes. REQUIRES: ties are folded, tensor columns filled.
Status FillPieces(const Description::Data& description, Catalog& catalog);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_CATALOG_PIECES_H_
