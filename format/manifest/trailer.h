#ifndef DSCKPT_FORMAT_MANIFEST_TRAILER_H_
#define DSCKPT_FORMAT_MANIFEST_TRAILER_H_

// The last 64 bytes of a manifest: its mark, its length and its checksum.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dsckpt/status.h"

namespace dsckpt::format {

/// Fixed size of what ends a manifest.
inline constexpr uint64_t kManifestTrailerBytes = 64;

/// Bit of must_understand: the pieces are in the manifest's parts.
inline constexpr uint64_t kManifestHasParts = 1;

/// What a trailer says of the FlatBuffer before it.
struct ManifestVersion {
  uint16_t minor = 0;
  uint64_t must_understand = 0;
};

/// Pads the FlatBuffer in `bytes` with zeros to a multiple of 8 and appends the trailer.
void AppendManifestTrailer(std::vector<std::byte>& bytes, const ManifestVersion& version = {});

/// The checksum that the trailer at the end of `bytes` gives. REQUIRES: 64 bytes or more.
uint64_t ManifestSum(std::span<const std::byte> bytes);

/// What can be said of a manifest of `file_bytes` before its body is read: its size is possible,
/// its magic stands at the end of `end`, which holds its last bytes (64, or all where it is
/// smaller), and the trailer's sizes are those of the file. Errors as ParseManifest(), but for a
/// file without the magic, which is kNotCheckpoint unless `begin`, its first bytes (8, or all),
/// hold the identifier.
Status CheckManifestEnds(std::span<const std::byte> begin, std::span<const std::byte> end,
                         uint64_t file_bytes);

/// A manifest whose trailer and checksum are right.
struct ManifestBody {
  std::span<const std::byte> buffer;  // The FlatBuffer, padding included.
  uint64_t must_understand = 0;
};
/// Checks size, trailer and checksum. Errors as ParseManifest().
Result<ManifestBody> CheckManifestTrailer(std::span<const std::byte> bytes);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_MANIFEST_TRAILER_H_
