// The release as text.

#include "dsckpt/version.h"

#define DSCKPT_TEXT_(x) #x
#define DSCKPT_VERSION_TEXT_(major, minor, patch) \
  DSCKPT_TEXT_(major) "." DSCKPT_TEXT_(minor) "." DSCKPT_TEXT_(patch)

namespace dsckpt {

const char* VersionString() {
  return DSCKPT_VERSION_TEXT_(DSCKPT_VERSION_MAJOR, DSCKPT_VERSION_MINOR, DSCKPT_VERSION_PATCH);
}

}  // namespace dsckpt
