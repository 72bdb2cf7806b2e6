#ifndef DSCKPT_WRITER_GROUP_COPIES_H_
#define DSCKPT_WRITER_GROUP_COPIES_H_

// Checks that what several ranks saved as one tensor is equal.

#include <vector>

#include "dsckpt/status.h"
#include "format/manifest/manifest.h"
#include "writer/group/report.h"

namespace dsckpt {

/// Whether what several ranks saved as the same part of one logical tensor is the same, where that
/// shows without reading it: the part is all that its stored tensor holds. kMismatch names a tensor
/// and two ranks. `contents`: of the manifest's shards, in its order. Near-linear in the number of
/// pieces.
Status CheckCopies(const format::ManifestView& manifest,
                   const std::vector<std::vector<StoredContent>>& contents);

/// What to do about a tensor that differs from rank to rank, for the end of a message.
extern const char* const kDeclareRankOwn;

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_GROUP_COPIES_H_
