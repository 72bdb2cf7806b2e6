#ifndef DSCKPT_WRITER_CHECKPOINT_REPORT_H_
#define DSCKPT_WRITER_CHECKPOINT_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/status.h"
#include "format/manifest.h"

namespace dsckpt {

/// What one rank tells rank 0 of an attempt when it is done with its shards, or failed; and, with a
/// status alone, what rank 0 answers.
struct Report {
  Status status;
  int64_t step = 0;
  std::string name;
  bool replace = false, in_place = false;
  /// Encoded, of this rank's shards. Empty when it failed.
  std::vector<std::byte> manifest;
};

std::vector<std::byte> EncodeReport(const Report& report);
/// kCorrupt. `bytes` may be at any address; the manifest in the result is aligned.
Result<Report> DecodeReport(std::span<const std::byte> bytes);

/// The manifest of a shard that stands on storage, read back from there: it says what a reader will
/// find. kInvalidArgument when the shard records another step than `step`: readers refuse that.
Result<format::ManifestColumns> ManifestOfFile(const std::string& path, std::string_view name,
                                               int rank, int64_t step);

/// The parts as one. Empty when there are none.
Result<format::ManifestColumns> Merge(std::span<const format::ManifestColumns> parts);

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_CHECKPOINT_REPORT_H_
