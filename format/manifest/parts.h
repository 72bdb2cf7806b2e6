#ifndef DSCKPT_FORMAT_MANIFEST_PARTS_H_
#define DSCKPT_FORMAT_MANIFEST_PARTS_H_

// A manifest whose pieces are in several files (spec/format.md, "Parts of a manifest"): divided for
// writing, united again by readers.

#include <cstdint>
#include <vector>

#include "dsckpt/limits.h"
#include "dsckpt/status.h"
#include "format/manifest/manifest.h"

namespace dsckpt::format {

/// An upper bound of what EncodeManifest() makes of the columns, in bytes.
uint64_t ManifestBytesBound(const ManifestColumns& columns);

/// Logical tensors [first, last) of a manifest.
struct LogicalRange {
  uint32_t first = 0, last = 0;
};

/// What each of the manifest's parts holds, so that none needs more than `max_bytes`; empty where
/// the manifest itself needs no more. kLimitExceeded: one logical tensor alone does, or there would
/// be more parts than a manifest may have.
Result<std::vector<LogicalRange>> DivideManifest(const ManifestColumns& whole,
                                                 uint64_t max_bytes = kMaxManifestBytes);

/// The part that holds the pieces of these logical tensors.
ManifestColumns PartOf(const ManifestColumns& whole, LogicalRange range);

/// Everything of a manifest but its logical tensors and their pieces.
ManifestColumns WithoutPieces(const ManifestView& manifest);

/// Appends the pieces of `part`, which is number `number` of the manifest that `whole` began as
/// (WithoutPieces()) and has passed its own rules. kMismatch: it belongs to another manifest;
/// kCorrupt: it has parts itself, or its names do not follow those before them; kLimitExceeded.
Status AppendPart(const ManifestView& part, uint32_t number, ManifestColumns& whole);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_MANIFEST_PARTS_H_
