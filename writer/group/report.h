#ifndef DSCKPT_WRITER_GROUP_REPORT_H_
#define DSCKPT_WRITER_GROUP_REPORT_H_

// What ranks tell each other.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/encoding.h"
#include "dsckpt/status.h"
#include "format/manifest/manifest.h"

namespace dsckpt {

/// What a stored tensor holds: two of one size and hash hold the same bytes.
struct StoredContent {
  Hash128 hash;  // of its chunk sums
  uint64_t raw_bytes = 0;
};

/// What one rank tells rank 0 of an attempt when it is done with its shards, or failed; and, with a
/// status alone, what rank 0 answers.
struct Report {
  Status status;
  int64_t step = 0;
  std::string name;
  bool replace = false, in_place = false;
  /// Encoded, of this rank's shards. Empty when it failed.
  std::vector<std::byte> manifest;
  /// Of each shard in the manifest, in its order: the stored tensors by ordinal. Not for the
  /// checkpoint, whose shards have the sums: rank 0 compares with them what ranks say is the same.
  std::vector<std::vector<StoredContent>> contents;
};

std::vector<std::byte> EncodeReport(const Report& report);
/// kCorrupt. `bytes` may be at any address; the manifest in the result is aligned.
Result<Report> DecodeReport(std::span<const std::byte> bytes);

/// A shard that stands on storage, read back from there: what a reader will find. kInvalidArgument:
/// it holds what was declared to be another rank's own.
struct ShardSummary {
  std::string name;
  format::ManifestColumns manifest;
  std::vector<StoredContent> contents;
};
Result<ShardSummary> SummaryOfFile(const std::string& path, std::string_view name, int rank);

/// The shards of one rank as one manifest, and their contents in its order. Empty when there are
/// none.
struct RankSummary {
  format::ManifestColumns manifest;
  std::vector<std::vector<StoredContent>> contents;
};
Result<RankSummary> Merge(std::vector<ShardSummary> shards);

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_GROUP_REPORT_H_
