#ifndef DSCKPT_FORMAT_MANIFEST_TRAILER_H_
#define DSCKPT_FORMAT_MANIFEST_TRAILER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dsckpt/status.h"

namespace dsckpt::format {

/// Fixed size of what ends a manifest.
inline constexpr uint64_t kManifestTrailerBytes = 64;

/// Pads the FlatBuffer in `bytes` with zeros to a multiple of 8 and appends the trailer.
void AppendManifestTrailer(std::vector<std::byte>& bytes);

/// Checks size, trailer and checksum; returns the FlatBuffer, padding included. Errors as
/// ParseManifest().
Result<std::span<const std::byte>> CheckManifestTrailer(std::span<const std::byte> bytes);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_MANIFEST_TRAILER_H_
