// Checkpoint: opening, manifests against shards, pieces.

#include "dsckpt/checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/align.h"
#include "base/backoff.h"
#include "dsckpt/limits.h"
#include "dsckpt/run_layout.h"
#include "format/names.h"
#include "io/directory.h"
#include "io/path.h"
#include "io/workers.h"
#include "reader/checkpoint/checkpoint_impl.h"
#include "reader/chunk/box.h"
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

void Finish(Checkpoint::Impl& impl) {
  for (const format::DTypeRecord& record : impl.manifest.dtypes) {
    impl.dtypes.push_back(reader::DescribeDType(record));
  }
  MutexLock lock(impl.mutex);
  impl.touched.resize(impl.manifest.shard_count());
  impl.matched.resize(impl.manifest.shard_count());
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
  impl.manifest = stored->view;  // Borrows from the bytes.
  impl.manifest_bytes = std::move(stored->bytes);
  impl.has_manifest = true;
  for (const std::string_view name : impl.manifest.shard_names) {
    impl.shard_paths.push_back(impl.path + "/" + std::string(name));
  }
  Finish(impl);
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
  MutexLock lock(impl.mutex);
  impl.shards.Put(shard, file);
  return Status();
}

/// A manifest as if the group had written one.
Status DescribeShards(Checkpoint::Impl& impl, std::span<const std::string> paths) {
  std::vector<format::ManifestColumns> parts(paths.size());
  std::vector<Status> outcomes(paths.size());
  {
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
  Finish(impl);
  MutexLock lock(impl.mutex);
  impl.touched.assign(paths.size(), true);
  return Status();
}

std::optional<int64_t> StepInMetadata(const File& file) {
  const auto metadata = file.Metadata();
  if (!metadata.ok()) return {};
  for (const auto& [key, text] : *metadata) {
    if (key != "step") continue;
    int64_t step = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
    if (error == std::errc() && end == text.data() + text.size() && step >= 0) return step;
  }
  return {};
}

/// Where no manifest says it. `first`: the first shard, where that is the checkpoint.
reader::KnownStep FindStep(const std::string& path, const File* first) {
  if (first != nullptr) {
    const auto attribute = first->Attribute("step");
    const auto* const number = attribute.ok() ? std::get_if<int64_t>(&*attribute) : nullptr;
    if (number != nullptr && *number >= 0) return {*number, StepSource::kAttribute};
    if (const auto step = StepInMetadata(*first)) return {*step, StepSource::kMetadata};
  }
  if (const auto step = StepInName(io::BaseName(path))) return {*step, StepSource::kName};
  return {};
}

}  // namespace

Status reader::CheckShard(const File& file, const ShardInfo& expected) {
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

ShardInfo Checkpoint::Impl::Shard(uint32_t i) const {
  return {manifest.shard_names[i], manifest.shard_rank[i], manifest.shard_file_bytes[i],
          manifest.shard_index_bytes[i], manifest.shard_index_xxh3_64[i]};
}

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
    DSCKPT_RETURN_IF_ERROR(reader::CheckShard(file, Shard(shard)));
    DSCKPT_RETURN_IF_ERROR(Match(file, shard));
  }
  return file;
}

Status Checkpoint::Impl::Match(const File& file, uint32_t shard) const {
  {
    MutexLock lock(mutex);
    if (matched[shard]) return Status();
    if (!by_shard) by_shard = std::make_unique<const format::PiecesByShard>(manifest);
  }
  const Status status =
      format::CheckShardAgainst(manifest, shard, by_shard->Of(shard), file.impl().index);
  if (!status.ok()) return Status(status).WithPath(file.path());
  MutexLock lock(mutex);
  matched[shard] = true;
  return Status();
}

Result<File> Checkpoint::Impl::OpenShard(uint32_t shard) const {
  {
    MutexLock lock(mutex);
    if (const File* const open = shards.Find(shard)) return *open;
  }
  auto file = Retry(options.retry, [&] { return OpenOnce(shard); });
  if (!file.ok()) {
    if (file.status().code() != StatusCode::kNotFound) return file.status();
    return Status(StatusCode::kIncomplete, file.status().message()).WithPath(shard_paths[shard]);
  }
  MutexLock lock(mutex);
  shards.Put(shard, *file);
  touched[shard] = true;
  return file;
}

bool Checkpoint::Impl::IsOpen(uint32_t shard) const {
  MutexLock lock(mutex);
  return shards.Has(shard);
}

Result<std::shared_ptr<const reader::PartMap>> Checkpoint::Impl::Parts(uint32_t tensor) const {
  {
    MutexLock lock(mutex);
    if (const auto* const kept = part_maps.Find(tensor)) return *kept;
  }
  auto parts = std::make_shared<const reader::PartMap>(manifest, tensor);
  if (!parts->status().ok()) {
    return Status(parts->status().code(), Title(tensor) + ": " + parts->status().message())
        .WithPath(path);
  }
  MutexLock lock(mutex);
  part_maps.Put(tensor, parts);
  return parts;
}

Result<std::optional<reader::Box>> Checkpoint::Impl::Gap(uint32_t tensor,
                                                         const reader::PartMap& parts,
                                                         const reader::Box& box) const {
  auto gap = parts.Gap(box);
  if (gap.ok()) return gap;
  return Status(gap.status().code(), Title(tensor) + ": " + gap.status().message()).WithPath(path);
}

Result<uint32_t> Checkpoint::Impl::TensorOrdinal(std::string_view name) const {
  if (const auto tensor = manifest.pieces.logical_names.Find(name)) return *tensor;
  return Status(StatusCode::kNotFound, "no tensor '" + Printable(name) + "' in the checkpoint")
      .WithPath(path);
}

LogicalTensorInfo Checkpoint::Impl::Info(uint32_t tensor) const {
  const auto pieces = manifest.PiecesOf(tensor);
  LogicalTensorInfo info;
  info.name = manifest.pieces.logical_names[tensor];
  info.dtype = dtypes[manifest.logical_dtype[tensor]];
  info.shape = manifest.pieces.logical_shape(tensor);
  info.ordinal = tensor;
  info.piece_count = pieces.last - pieces.first;
  uint64_t elements = 1;
  for (const int64_t size : info.shape) elements *= static_cast<uint64_t>(size);
  info.bytes = elements / info.dtype.block_elements * info.dtype.block_bytes;
  return info;
}

reader::KnownStep Checkpoint::Impl::Step() const {
  if (has_manifest && manifest.step >= 0) return {manifest.step, StepSource::kManifest};
  {
    MutexLock lock(mutex);
    if (step) return *step;
  }
  if (has_manifest) return FindStep(path, nullptr);
  const auto first = OpenShard(0);
  if (!first.ok()) return FindStep(path, nullptr);  // It may open the next time.
  const reader::KnownStep found = FindStep(path, &*first);
  MutexLock lock(mutex);
  step = found;
  return found;
}

std::string Checkpoint::Impl::Title(uint32_t tensor) const {
  return "tensor '" + Printable(manifest.pieces.logical_names[tensor]) + "'";
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

const std::string& Checkpoint::path() const { return impl_->path; }
bool Checkpoint::has_manifest() const { return impl_->has_manifest; }
int64_t Checkpoint::step() const { return impl_->Step().step; }
StepSource Checkpoint::step_source() const { return impl_->Step().source; }
uint64_t Checkpoint::serial() const { return impl_->manifest.serial; }
uint64_t Checkpoint::parent() const { return impl_->manifest.parent; }
std::string_view Checkpoint::attempt() const { return impl_->manifest.attempt; }
uint32_t Checkpoint::ranks() const { return impl_->manifest.ranks; }
uint32_t Checkpoint::shard_count() const { return impl_->manifest.shard_count(); }

ShardInfo Checkpoint::shard(uint32_t i) const { return impl_->Shard(i); }

Result<File> Checkpoint::OpenShard(uint32_t shard) const { return impl_->OpenShard(shard); }

uint32_t Checkpoint::open_shard_count() const {
  MutexLock lock(impl_->mutex);
  return static_cast<uint32_t>(std::count(impl_->touched.begin(), impl_->touched.end(), true));
}

uint32_t Checkpoint::tensor_count() const { return impl_->manifest.pieces.logical_names.size(); }
LogicalTensorInfo Checkpoint::tensor(uint32_t i) const { return impl_->Info(i); }

Result<LogicalTensorInfo> Checkpoint::FindTensor(std::string_view name) const {
  DSCKPT_ASSIGN_OR_RETURN(const uint32_t tensor, impl_->TensorOrdinal(name));
  return impl_->Info(tensor);
}

std::vector<PieceLocation> Checkpoint::Pieces(uint32_t tensor) const {
  const format::ManifestView& manifest = impl_->manifest;
  const auto [first, last] = manifest.PiecesOf(tensor);
  std::vector<PieceLocation> pieces;
  for (uint32_t i = first; i < last; ++i) {
    auto piece = manifest.pieces.Get(i);
    if (!piece) continue;
    pieces.push_back({manifest.piece_shard[i], manifest.pieces.tensor[i], *std::move(piece)});
  }
  return pieces;
}

Status Checkpoint::CheckCoverage(uint32_t tensor) const {
  DSCKPT_ASSIGN_OR_RETURN(const auto parts, impl_->Parts(tensor));
  DSCKPT_ASSIGN_OR_RETURN(const auto gap,
                          impl_->Gap(tensor, *parts, reader::WholeBox(parts->shape())));
  if (!gap) return Status();
  return Status(StatusCode::kIncomplete, impl_->Title(tensor) + ": no shard holds elements " +
                                             reader::BoxText(*gap) + " of shape " +
                                             ShapeText(impl_->Info(tensor).shape))
      .WithPath(impl_->path);
}

Status Checkpoint::CompareCopies(uint32_t tensor) const {
  return reader::CompareCopies(*impl_, tensor);
}

Status Checkpoint::ReadBytes(uint32_t tensor, uint64_t offset, std::span<std::byte> out,
                             bool verify) const {
  const LogicalTensorInfo info = impl_->Info(tensor);
  if (offset > info.bytes || out.size() > info.bytes - offset) {
    return Status(StatusCode::kInvalidArgument,
                  impl_->Title(tensor) + ": bytes [" + std::to_string(offset) + ", " +
                      std::to_string(offset + out.size()) + ") are not among its " +
                      std::to_string(info.bytes) + " bytes");
  }
  const uint64_t block = info.dtype.block_bytes;
  const uint64_t first = offset / block;
  const uint64_t last = DivideUp(offset + out.size(), block);
  if (first * block == offset && (last - first) * block == out.size()) {
    return reader::ReadBlocks(*impl_, tensor, first, out, verify);
  }
  std::vector<std::byte> blocks((last - first) * block);
  DSCKPT_RETURN_IF_ERROR(reader::ReadBlocks(*impl_, tensor, first, blocks, verify));
  std::copy_n(blocks.begin() + static_cast<std::ptrdiff_t>(offset - first * block), out.size(),
              out.begin());
  return Status();
}

Status Checkpoint::Read(std::span<const BoxRequest> requests) const {
  std::vector<BoxRequest> framed(requests.begin(), requests.end());
  std::vector<reader::Box> boxes(requests.size());
  for (size_t i = 0; i < framed.size(); ++i) {
    BoxRequest& request = framed[i];
    if (request.whole) continue;
    DSCKPT_ASSIGN_OR_RETURN(const uint32_t tensor, impl_->TensorOrdinal(request.name));
    const LogicalTensorInfo info = impl_->Info(tensor);
    const reader::Box wanted(request.box.begin(), request.box.end());
    const auto fits = reader::BoxRuns::Make(info.dtype, info.shape, wanted);
    if (!fits.ok()) {
      return Status(fits.status().code(), impl_->Title(tensor) + ": " + fits.status().message());
    }
    const auto box = reader::InFrame(wanted, info.shape, info.dtype.block_elements);
    if (!box) {
      return Status(StatusCode::kInvalidArgument,
                    impl_->Title(tensor) +
                        ": its rows are no whole bytes, so that only boxes without gaps between "
                        "their elements can be read");
    }
    boxes[i] = *box;
    request.box = boxes[i];
  }
  return reader::ReadBoxes(*impl_, framed, true);
}

}  // namespace dsckpt
