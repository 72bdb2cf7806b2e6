#ifndef DSCKPT_SPEC_CONFORMANCE_PATCH_H_
#define DSCKPT_SPEC_CONFORMANCE_PATCH_H_

#include <functional>
#include <string>

#include "format/columns/columns.h"
#include "format/footer/footer.h"
#include "format/manifest/manifest.h"

// Changing one thing in a shard and making the rest agree again, so that only one rule is broken.

namespace dsckpt::conformance {

/// A shard taken apart.
struct Parts {
  std::string body;  // [0, index_offset)
  std::string index;
  format::Footer footer;
};
Result<Parts> TakeApart(const std::string& bytes);
/// Index padded, sizes and checksums recomputed everywhere.
std::string PutTogether(Parts parts);

/// The shard's index, owned.
Result<format::IndexColumns> ColumnsOf(const Parts& parts);

using ColumnsChange = std::function<void(format::IndexColumns&)>;
using PartsChange = std::function<void(Parts&)>;
using BytesChange = std::function<void(std::string&)>;

/// REQUIRES: `bytes` is a valid manifest.
format::ManifestColumns ManifestColumnsOf(const std::string& bytes);
/// The column of the parts' sums empty; the trailer as it was. REQUIRES: it has parts.
std::string WithoutPartSums(const std::string& manifest);
/// The manifest re-encoded with changed columns. REQUIRES: `bytes` is a valid manifest.
std::string WithManifest(const std::string& bytes,
                         const std::function<void(format::ManifestColumns&)>& change);
/// The manifest's bytes changed, its trailer's checksum recomputed.
std::string WithManifestBytes(const std::string& bytes, const BytesChange& change);

/// What builders make that leave empty vectors where their length ends: those of 8-byte elements at
/// 4 beyond a multiple of 8. REQUIRES: a valid shard without objects; a valid manifest without
/// pieces.
std::string WithUnalignedVectors(const std::string& shard);
std::string WithUnalignedManifestVectors(const std::string& manifest);

/// REQUIRES (all): `bytes` is a valid shard.
/// The index re-encoded with changed columns. The body stays.
std::string WithColumns(const std::string& bytes, const ColumnsChange& change);
/// Parts changed, sizes and sums recomputed.
std::string WithParts(const std::string& bytes, const PartsChange& change);
/// Footer changed as it is; only its own checksum is recomputed.
std::string WithFooter(const std::string& bytes,
                       const std::function<void(format::Footer&)>& change);
/// The footer's 128 bytes changed, its checksum recomputed.
std::string WithFooterBytes(const std::string& bytes, const BytesChange& change);
/// An index whose field `chunk_sums`, which is required, is absent.
void DropRequiredField(Parts& parts);
/// An index whose `chunk_sums` is longer than the buffer.
void LengthenVector(Parts& parts);
/// An index with the offsets of the tensors 4 beyond a multiple of 8.
void UnalignColumn(Parts& parts);
/// An index whose first media type does not end with a NUL.
void UnterminateString(Parts& parts);

/// The shard as format 1.0 has it: without what 1.1 added.
std::string AsFirstVersion(const std::string& bytes);
/// A header region one page longer than it need be, and everything behind it moved. REQUIRES: at
/// least one listed tensor.
std::string WithLongerHeader(const std::string& bytes);
/// The header region changed, its checksum in the footer recomputed.
std::string WithHeader(const std::string& bytes, const BytesChange& change);

}  // namespace dsckpt::conformance

#endif  // DSCKPT_SPEC_CONFORMANCE_PATCH_H_
