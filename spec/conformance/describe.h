#ifndef DSCKPT_SPEC_CONFORMANCE_DESCRIBE_H_
#define DSCKPT_SPEC_CONFORMANCE_DESCRIBE_H_

#include <nlohmann/json.hpp>

#include "dsckpt/checkpoint.h"
#include "dsckpt/file.h"
#include "format/manifest/manifest.h"

namespace dsckpt::conformance {

/// What `dsckpt inspect --json --tree` says about a file, without "path". Written apart from the
/// command, so that the two check each other.
nlohmann::ordered_json Describe(const File& file);

/// What a checkpoint holds: step, number of shards, and the bytes of each logical tensor as
/// hexadecimal digits, put together from all shards.
Result<nlohmann::ordered_json> Describe(const Checkpoint& checkpoint);

/// What a manifest says, by logical tensor.
nlohmann::ordered_json Describe(const format::ManifestView& manifest);

}  // namespace dsckpt::conformance

#endif  // DSCKPT_SPEC_CONFORMANCE_DESCRIBE_H_
