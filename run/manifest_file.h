#ifndef DSCKPT_RUN_MANIFEST_FILE_H_
#define DSCKPT_RUN_MANIFEST_FILE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "dsckpt/status.h"
#include "format/manifest/manifest.h"

// The two files of a run that are read and written as a whole: a checkpoint's manifest, and
// `latest`.

namespace dsckpt::run {

std::string ManifestPath(const std::string& directory);

/// The manifest in a directory, parsed.
struct StoredManifest {
  std::vector<std::byte> bytes;
  format::ManifestView view;  // Borrows from `bytes`.
};
/// kNotFound where there is none; else as format::ParseManifest. The file's end is read and checked
/// first, so that what is no manifest is not read, whatever its size.
Result<StoredManifest> ReadManifest(const std::string& directory);

/// The name in `latest` of a run directory; nothing where there is no such file or it holds no name
/// of a checkpoint. What it names need not stand.
std::optional<std::string> ReadLatest(const std::string& run);
/// Makes `latest` name a checkpoint, durably; the old text or the new, never anything else.
Status WriteLatest(const std::string& run, const std::string& name);

}  // namespace dsckpt::run

#endif  // DSCKPT_RUN_MANIFEST_FILE_H_
