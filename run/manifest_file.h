#ifndef DSCKPT_RUN_MANIFEST_FILE_H_
#define DSCKPT_RUN_MANIFEST_FILE_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dsckpt/limits.h"
#include "dsckpt/status.h"
#include "format/manifest/manifest.h"

// The files of a run that are read and written as a whole: a checkpoint's manifest with its parts,
// and `latest`.

namespace dsckpt::run {

std::string ManifestPath(const std::string& directory);

/// The manifest in a directory, parsed.
struct StoredManifest {
  std::vector<std::byte> bytes;
  std::unique_ptr<format::ManifestColumns> columns;  // Where parts were united.
  format::ManifestView view;                         // Borrows from either.
};
/// With the pieces of its parts, where it has some. kNotFound where there is none; else as
/// format::ParseManifest; of parts also kIncomplete, and kMismatch where they are another's. The
/// file's end is read and checked first, so that what is no manifest is not read, whatever its
/// size; parts are read one after another when all stand with their sizes.
Result<StoredManifest> ReadManifest(const std::string& directory);
/// The manifest without the pieces of its parts, which are not looked at.
Result<StoredManifest> ReadManifestAlone(const std::string& directory);

/// Whether each part of `manifest` stands as a regular file, with its size, in one of
/// `directories`, of which the first that has an entry of its name counts. kIncomplete, kMismatch.
Status CheckParts(std::initializer_list<std::string> directories,
                  const format::ManifestView& manifest);

/// Writes the manifest durably, last of all; where it needs more than `max_bytes`, its parts
/// before. Returns how many these are. kLimitExceeded.
Result<uint32_t> WriteManifest(const std::string& directory,
                               const format::ManifestColumns& manifest,
                               uint64_t max_bytes = kMaxManifestBytes);

/// The name in `latest` of a run directory; nothing where there is no such file or it holds no name
/// of a checkpoint. What it names need not stand.
std::optional<std::string> ReadLatest(const std::string& run);
/// Makes `latest` name a checkpoint, durably; the old text or the new, never anything else.
Status WriteLatest(const std::string& run, const std::string& name);

}  // namespace dsckpt::run

#endif  // DSCKPT_RUN_MANIFEST_FILE_H_
