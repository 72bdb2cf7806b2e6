#ifndef DSCKPT_FORMAT_MANIFEST_CHECK_H_
#define DSCKPT_FORMAT_MANIFEST_CHECK_H_

#include <string_view>

#include "dsckpt/status.h"
#include "format/manifest.h"

namespace dsckpt::format {

/// May a shard be called so? A bare file name: nothing that leads out of the directory.
bool IsShardName(std::string_view name);

/// The part of ParseManifest that looks at columns. Near-linear time.
Status CheckManifest(const ManifestView& manifest);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_MANIFEST_CHECK_H_
