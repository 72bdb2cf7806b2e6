#ifndef DSCKPT_VERSION_H_
#define DSCKPT_VERSION_H_

#include "dsckpt/export.h"

/// The version of the library: major, minor and patch number. The build reads them from this file;
/// the version stands nowhere else.
#define DSCKPT_VERSION_MAJOR 0
#define DSCKPT_VERSION_MINOR 1
#define DSCKPT_VERSION_PATCH 0

namespace DSCKPT_EXPORT dsckpt {
/// Returns the version of the library that is linked, such as "0.1.0". The text is static. It may
/// differ from the macros, which are those of the headers.
const char* VersionString();
}  // namespace dsckpt

#endif  // DSCKPT_VERSION_H_
