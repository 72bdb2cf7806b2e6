#ifndef DSCKPT_FORMAT_MANIFEST_CHECK_H_
#define DSCKPT_FORMAT_MANIFEST_CHECK_H_

// Rules for its shards and pieces.

#include <string_view>

#include "dsckpt/status.h"
#include "format/manifest/manifest.h"

namespace dsckpt::format {

/// How messages call what is wrong in a manifest.
inline constexpr std::string_view kManifestPart = "manifest";

/// The part of ParseManifest that looks at columns. Near-linear time.
Status CheckManifest(const ManifestView& manifest);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_MANIFEST_CHECK_H_
