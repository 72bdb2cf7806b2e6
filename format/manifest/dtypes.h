#ifndef DSCKPT_FORMAT_MANIFEST_DTYPES_H_
#define DSCKPT_FORMAT_MANIFEST_DTYPES_H_

// The dtype table of a manifest.

#include <span>

#include "dsckpt/status.h"
#include "format/manifest/manifest.h"

namespace dsckpt::format {

/// Fills the dtype table, by code, and each logical tensor's position in it. kMismatch: two
/// descriptions of one code; kLimitExceeded: more dtypes than a table holds.
Status SetLogicalDTypes(std::span<const DTypeRecord> by_logical, ManifestColumns& out);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_MANIFEST_DTYPES_H_
