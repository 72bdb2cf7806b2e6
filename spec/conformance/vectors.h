#ifndef DSCKPT_SPEC_CONFORMANCE_VECTORS_H_
#define DSCKPT_SPEC_CONFORMANCE_VECTORS_H_

#include <functional>
#include <string>
#include <vector>

#include "dsckpt/engine.h"
#include "dsckpt/provider.h"

// The conformance vectors as code: what each file holds, or how it is broken.

namespace dsckpt::conformance {

/// A file that every reader must open.
struct ValidVector {
  std::string name;
  std::function<void(Description&)> describe;
  SaveOptions options = {};
};
std::vector<ValidVector> ValidVectors();

/// Files that a later version could write and this one must read; made from the bytes of the vector
/// "mixed".
struct FutureVector {
  std::string name;
  std::string bytes;
};
Result<std::vector<FutureVector>> FutureVectors(const std::string& mixed);

/// A broken variant of "mixed". Opening gives `code`; where it is kOk, verification finds a problem
/// of `item` and `kind`.
struct InvalidVector {
  std::string name;
  std::string bytes;
  StatusCode code;
  std::string message_contains;
  std::string item = {};
  std::string kind = {};
};
Result<std::vector<InvalidVector>> InvalidVectors(const std::string& mixed);

/// Writes valid/ and invalid/ below `directory`, each file with its JSON.
Status WriteVectors(const std::string& directory);

}  // namespace dsckpt::conformance

#endif  // DSCKPT_SPEC_CONFORMANCE_VECTORS_H_
