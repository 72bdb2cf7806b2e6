// Checkpoint: what it says of itself, its logical tensors and their pieces, and reading them.

#include "dsckpt/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/align.h"
#include "dsckpt/limits.h"
#include "dsckpt/run_layout.h"
#include "format/names.h"
#include "io/path.h"
#include "reader/checkpoint/box_reader.h"
#include "reader/checkpoint/checkpoint_impl.h"
#include "reader/checkpoint/compare_copies.h"
#include "reader/chunk/box.h"
#include "reader/file/file_impl.h"

namespace dsckpt {

namespace {

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

ShardInfo Checkpoint::Impl::Shard(uint32_t i) const {
  return {manifest.shard_names[i], manifest.shard_rank[i], manifest.shard_file_bytes[i],
          manifest.shard_index_bytes[i], manifest.shard_index_xxh3_64[i]};
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

const std::string& Checkpoint::path() const { return impl_->path; }
bool Checkpoint::has_manifest() const { return impl_->has_manifest; }
uint32_t Checkpoint::manifest_parts() const { return impl_->manifest.part_count(); }
int64_t Checkpoint::step() const { return impl_->Step().step; }
StepSource Checkpoint::step_source() const { return impl_->Step().source; }
uint64_t Checkpoint::serial() const { return impl_->manifest.serial; }
uint64_t Checkpoint::parent() const { return impl_->manifest.parent; }
std::string_view Checkpoint::attempt() const { return impl_->manifest.attempt; }
uint32_t Checkpoint::ranks() const { return impl_->manifest.ranks; }
std::optional<Hash128> Checkpoint::ContentDigest() const {
  return format::ContentOf(impl_->manifest);
}
uint32_t Checkpoint::shard_count() const { return impl_->manifest.shard_count(); }

ShardInfo Checkpoint::shard(uint32_t i) const { return impl_->Shard(i); }

Result<File> Checkpoint::OpenShard(uint32_t shard) const { return impl_->OpenShard(shard); }

uint32_t Checkpoint::open_shard_count() const { return impl_->shards.opened(); }

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
