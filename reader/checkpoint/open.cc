// Opening a checkpoint by its manifest, or shards without one; and opening its shards, which are
// compared with what the manifest says of them.

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/backoff.h"
#include "base/text.h"
#include "dsckpt/checkpoint.h"
#include "format/manifest/shard_match.h"
#include "io/directory.h"
#include "io/path.h"
#include "io/workers.h"
#include "reader/checkpoint/checkpoint_impl.h"
#include "reader/file/file_impl.h"
#include "run/manifest_file.h"

namespace dsckpt {

namespace {

constexpr size_t kOpeners = 8;

/// What a lagging shared file system may show for a moment.
bool MayPass(const Status& status) {
  return status.code() == StatusCode::kNotFound || status.error_number() == ESTALE;
}

/// Calls `attempt` until it succeeds, fails for good, or `patience` is over.
template <typename Attempt>
auto Retry(std::chrono::milliseconds patience, Attempt&& attempt) {
  for (Backoff backoff(patience);;) {
    auto result = attempt();
    if (result.ok() || !MayPass(result.status()) || !backoff.Wait()) return result;
  }
}

void DescribeDTypes(Checkpoint::Impl& impl) {
  for (const format::DTypeRecord& record : impl.manifest.dtypes) {
    impl.dtypes.push_back(reader::DescribeDType(record));
  }
}

Status OpenDirectory(Checkpoint::Impl& impl) {
  auto stored = run::ReadManifest(impl.path);
  if (!stored.ok()) {
    if (stored.status().code() != StatusCode::kNotFound) return stored.status();
    return Status(StatusCode::kIncomplete,
                  "the directory has no " + std::string(kManifestName) +
                      ": it is no checkpoint, or one that was never completed; use another one "
                      "('dsckpt ls' lists a run's)")
        .WithPath(impl.path);
  }
  impl.manifest = stored->view;  // Borrows from the bytes, or from the columns.
  impl.manifest_bytes = std::move(stored->bytes);
  impl.columns = std::move(stored->columns);
  impl.has_manifest = true;
  for (const std::string_view name : impl.manifest.shard_names) {
    impl.shard_paths.push_back(impl.path + "/" + std::string(name));
  }
  impl.shards.Resize(impl.manifest.shard_count());
  DescribeDTypes(impl);
  return Status();
}

Status DescribeShard(Checkpoint::Impl& impl, const std::string& path, uint32_t shard,
                     format::ManifestColumns& out) {
  DSCKPT_ASSIGN_OR_RETURN(const File file, File::Open(path, impl.options.file));
  const auto& footer = file.impl().footer;
  auto part = format::ManifestOfShard(
      {path, shard, file.file_bytes(), footer.index_bytes, footer.index_xxh3_64},
      file.impl().index);
  if (!part.ok()) return Status(part.status()).WithPath(path);
  out = std::move(part).value();
  impl.shards.Put(shard, file);
  return Status();
}

/// A manifest as if the group had written one.
Status DescribeShards(Checkpoint::Impl& impl, std::span<const std::string> paths) {
  std::vector<format::ManifestColumns> parts(paths.size());
  std::vector<Status> outcomes(paths.size());
  impl.shards.Resize(static_cast<uint32_t>(paths.size()));
  if (paths.size() == 1) {
    // A run may hold thousands of single files, for each of which a thread costs more than it does.
    outcomes[0] = DescribeShard(impl, paths[0], 0, parts[0]);
  } else {
    // Of many small files most of the time is waiting for storage.
    io::Workers workers(static_cast<int>(std::min<size_t>(paths.size(), kOpeners)), "dsckpt-open");
    for (uint32_t i = 0; i < paths.size(); ++i) {
      workers.Run([&, i] { outcomes[i] = DescribeShard(impl, paths[i], i, parts[i]); });
    }
  }
  for (Status& outcome : outcomes) DSCKPT_RETURN_IF_ERROR(std::move(outcome));
  std::vector<format::ManifestView> views;
  for (const auto& part : parts) views.push_back(format::ViewOf(part));
  DSCKPT_ASSIGN_OR_RETURN(format::ManifestColumns merged, format::MergeManifests(views));
  merged.ranks = static_cast<uint32_t>(paths.size());
  impl.columns = std::make_unique<format::ManifestColumns>(std::move(merged));
  impl.manifest = format::ViewOf(*impl.columns);
  impl.shard_paths.assign(paths.begin(), paths.end());
  DescribeDTypes(impl);
  return Status();
}

/// Rule S2: refuses a file that is not the shard which the manifest describes, by size and index
/// checksum.
Status CheckShard(const File& file, const ShardInfo& expected) {
  const auto& footer = file.impl().footer;
  const bool same =
      file.format() == FileFormat::kDsckpt && file.file_bytes() == expected.file_bytes &&
      footer.index_bytes == expected.index_bytes && footer.index_xxh3_64 == expected.index_xxh3_64;
  if (same) return Status();
  return Status(StatusCode::kMismatch,
                "this is not the shard that the manifest describes: expected " +
                    std::to_string(expected.file_bytes) + " bytes with index checksum " +
                    Hex64(expected.index_xxh3_64) + ", found " + std::to_string(file.file_bytes()) +
                    " bytes with " + Hex64(footer.index_xxh3_64) +
                    ": it belongs to another save; use another checkpoint")
      .WithPath(file.path());
}

}  // namespace

Result<File> Checkpoint::Impl::OpenOnce(uint32_t shard) const {
  const std::string& file_path = shard_paths[shard];
  if (has_manifest) {
    // Not through a link, which could lead out of the directory.
    DSCKPT_ASSIGN_OR_RETURN(const io::PathKind kind, io::KindOf(file_path));
    if (kind == io::PathKind::kNone) {
      return Status(
                 StatusCode::kNotFound,
                 "the shard of rank " + std::to_string(manifest.shard_rank[shard]) + " is missing")
          .WithPath(file_path);
    }
    if (kind != io::PathKind::kFile) {
      return Status(StatusCode::kMismatch,
                    "the shard is a link or no regular file, which no writer makes: not followed")
          .WithPath(file_path);
    }
  }
  DSCKPT_ASSIGN_OR_RETURN(File file, File::Open(file_path, options.file));
  if (has_manifest) {
    DSCKPT_RETURN_IF_ERROR(CheckShard(file, Shard(shard)));
    DSCKPT_RETURN_IF_ERROR(Match(file, shard));
  }
  return file;
}

Status Checkpoint::Impl::Match(const File& file, uint32_t shard) const {
  const auto pieces = shards.PiecesToCompare(shard, manifest);
  if (!pieces) return Status();
  const Status status = format::CheckShardAgainst(manifest, shard, *pieces, file.impl().index);
  if (!status.ok()) return Status(status).WithPath(file.path());
  shards.MarkCompared(shard);
  return Status();
}

Result<File> Checkpoint::Impl::OpenShard(uint32_t shard) const {
  if (auto open = shards.Find(shard)) return *std::move(open);
  auto file = Retry(options.retry, [&] { return OpenOnce(shard); });
  if (!file.ok()) {
    if (file.status().code() != StatusCode::kNotFound) return file.status();
    return Status(StatusCode::kIncomplete, file.status().message()).WithPath(shard_paths[shard]);
  }
  shards.Put(shard, *file);
  return file;
}

Result<Checkpoint> Checkpoint::Open(const std::string& path, const CheckpointOptions& options) {
  // Where it is nothing at all, opening it as a file says so.
  if (!io::IsDirectory(path)) return OpenShards(std::span(&path, 1), options);
  auto impl = std::make_shared<Impl>();
  impl->path = path;
  while (impl->path.size() > 1 && impl->path.back() == '/') impl->path.pop_back();
  impl->options = options;
  DSCKPT_RETURN_IF_ERROR(OpenDirectory(*impl));
  return Checkpoint(std::move(impl));
}

Result<Checkpoint> Checkpoint::OpenShards(std::span<const std::string> paths,
                                          const CheckpointOptions& options) {
  if (paths.empty()) return Status(StatusCode::kInvalidArgument, "no shards were given");
  auto impl = std::make_shared<Impl>();
  impl->path = paths[0];
  impl->options = options;
  DSCKPT_RETURN_IF_ERROR(DescribeShards(*impl, paths));
  return Checkpoint(std::move(impl));
}

}  // namespace dsckpt
