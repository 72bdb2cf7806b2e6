#ifndef DSCKPT_VERSION_H_
#define DSCKPT_VERSION_H_

#include "dsckpt/export.h"

/// Version of the library. CMakeLists.txt reads it from here: it stands nowhere else.
#define DSCKPT_VERSION_MAJOR 0
#define DSCKPT_VERSION_MINOR 1
#define DSCKPT_VERSION_PATCH 0

namespace DSCKPT_EXPORT dsckpt {
/// "0.1.0".
const char* VersionString();
}  // namespace dsckpt

#endif  // DSCKPT_VERSION_H_
