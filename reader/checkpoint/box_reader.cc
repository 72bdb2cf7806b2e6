#include "reader/checkpoint/box_reader.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>

#include "reader/chunk/reader.h"
#include "reader/file/file_impl.h"

namespace dsckpt::reader {

namespace {
/// Copies that are in memory at a time, unless one alone is larger.
constexpr uint64_t kCopyBytes = 64 * kMiB;
}  // namespace

Status BoxReader::Add(const BoxRequest& request) {
  DSCKPT_ASSIGN_OR_RETURN(const uint32_t logical, checkpoint_.TensorOrdinal(request.name));
  const LogicalTensorInfo info = checkpoint_.Info(logical);
  DSCKPT_ASSIGN_OR_RETURN(const auto parts, checkpoint_.Parts(logical));
  const Box wanted =
      request.whole ? WholeBox(parts->shape()) : Box(request.box.begin(), request.box.end());
  // Checks rank, ranges and sub-byte rows.
  auto image = BoxRuns::Make(info.dtype, parts->shape(), wanted);
  const std::string title = checkpoint_.Title(logical) + ": ";
  if (!image.ok()) return Status(image.status().code(), title + image.status().message());
  if (request.out.size() != image->total_bytes()) {
    return Status(StatusCode::kInvalidArgument,
                  title + "the box takes " + std::to_string(image->total_bytes()) +
                      " bytes, but the destination has " + std::to_string(request.out.size()));
  }
  if (request.out.empty()) return Status();
  DSCKPT_ASSIGN_OR_RETURN(const auto gap, checkpoint_.Gap(logical, *parts, wanted));
  if (gap) {
    return Status(StatusCode::kIncomplete, title + "no shard holds elements " + BoxText(*gap) +
                                               " of shape " + ShapeText(info.shape) +
                                               ": the checkpoint lacks a part of it")
        .WithPath(checkpoint_.path);
  }
  for (const PartMap::Region& region : parts->regions()) {
    const auto common = Intersect(parts->box(region), wanted);
    if (!common) continue;
    DSCKPT_RETURN_IF_ERROR(AddRegion(logical, *parts, region, *common, wanted, request.out));
  }
  return Status();
}

Status BoxReader::AddRegion(uint32_t logical, const PartMap& parts, const PartMap::Region& region,
                            const Box& common, const Box& out_box, std::span<std::byte> out) {
  // One of each declared group of replicas, where possible from a shard that is open already;
  // copies that nobody declared have to prove that they are equal.
  std::vector<const TensorPart*> distinct;
  std::unordered_map<uint32_t, size_t> groups;  // Positions in `distinct`.
  for (const TensorPart& part : parts.copies(region)) {
    const auto [group, is_new] = groups.try_emplace(part.replica_group, distinct.size());
    if (is_new || part.replica_group == 0) {
      distinct.push_back(&part);
    } else if (const TensorPart*& same = distinct[group->second];
               !checkpoint_.IsOpen(same->shard) && checkpoint_.IsOpen(part.shard)) {
      same = &part;
    }
  }
  const TensorPart& first = *distinct[0];
  if (region.overlaps) {
    AddCopy(logical, first, common, out_box, out, true);
  } else {
    DSCKPT_RETURN_IF_ERROR(AddTransfer(logical, first, common, out_box, out));
  }
  for (size_t i = 1; i < distinct.size(); ++i) {
    DSCKPT_ASSIGN_OR_RETURN(const bool equal, SameDigest(first, *distinct[i]));
    if (equal) continue;
    AddCopy(logical, *distinct[i], common, out_box, out, false);
  }
  return Status();
}

Result<bool> BoxReader::SameDigest(const TensorPart& a, const TensorPart& b) const {
  DSCKPT_ASSIGN_OR_RETURN(const File file_a, checkpoint_.OpenShard(a.shard));
  DSCKPT_ASSIGN_OR_RETURN(const File file_b, checkpoint_.OpenShard(b.shard));
  if (a.tensor >= file_a.tensor_count() || b.tensor >= file_b.tensor_count()) return false;
  const TensorInfo info_a = file_a.tensor(a.tensor);
  const TensorInfo info_b = file_b.tensor(b.tensor);
  uint64_t elements = 1;
  for (const int64_t size : info_a.shape) elements *= static_cast<uint64_t>(size);
  if (a.element_offset != 0 || b.element_offset != 0 || elements != Volume(a.box)) return false;
  const auto digest = file_a.Digest(info_a);
  return digest && digest == file_b.Digest(info_b);
}

Status BoxReader::AddTransfer(uint32_t logical, const TensorPart& part, const Box& common,
                              const Box& out_box, std::span<std::byte> out) {
  DSCKPT_ASSIGN_OR_RETURN(const File file, checkpoint_.OpenShard(part.shard));
  const LogicalTensorInfo info = checkpoint_.Info(logical);
  const auto differs = [&](const std::string& why) {
    return Status(StatusCode::kMismatch,
                  checkpoint_.Title(logical) +
                      ": the shard does not hold what the manifest says: " + why)
        .WithPath(file.path());
  };
  if (part.tensor >= file.tensor_count()) {
    return differs("tensor " + std::to_string(part.tensor) + " of " +
                   std::to_string(file.tensor_count()));
  }
  const TensorInfo stored = file.tensor(part.tensor);
  if (stored.dtype.code != info.dtype.code) {
    return differs("dtype " + std::string(stored.dtype.name) + ", expected " +
                   std::string(info.dtype.name));
  }
  const uint64_t blocks = stored.raw_bytes / info.dtype.block_bytes;
  const uint64_t begin = part.element_offset / info.dtype.block_elements;
  const uint64_t count = Volume(part.box) / info.dtype.block_elements;
  if (begin > blocks || count > blocks - begin) {
    return differs("a piece ends after its tensor of " + std::to_string(stored.raw_bytes) +
                   " bytes");
  }
  const std::vector<int64_t> part_shape = Extents(part.box);
  const std::vector<int64_t> out_shape = Extents(out_box);
  const std::vector<int64_t> out_begin = Begins(Relative(common, out_box));
  auto runs =
      BoxRuns::Make(info.dtype, part_shape, Relative(common, part.box), {out_shape, out_begin});
  if (!runs.ok())
    return Status(runs.status().code(),
                  checkpoint_.Title(logical) + ": " + runs.status().message());
  runs->Shift(begin * info.dtype.block_bytes);
  transfers_.push_back({part.shard, part.tensor, std::move(runs).value(), out});
  return Status();
}

Status BoxReader::Run() {
  DSCKPT_RETURN_IF_ERROR(RunTransfers());
  return RunCopies();
}

Status BoxReader::RunTransfers() {
  std::vector<BoxTransfer> sorted = std::exchange(transfers_, {});
  std::stable_sort(sorted.begin(), sorted.end(), [](const BoxTransfer& a, const BoxTransfer& b) {
    return a.shard != b.shard ? a.shard < b.shard : a.tensor < b.tensor;
  });
  for (size_t begin = 0; begin < sorted.size();) {
    size_t end = begin;
    while (end < sorted.size() && sorted[end].shard == sorted[begin].shard) ++end;
    DSCKPT_RETURN_IF_ERROR(
        ReadShard(sorted[begin].shard, std::span(sorted).subspan(begin, end - begin)));
    begin = end;
  }
  return Status();
}

Status BoxReader::RunCopies() {
  for (size_t begin = 0; begin < copies_.size();) {
    std::deque<std::vector<std::byte>> memory;
    size_t end = begin;
    for (uint64_t total = 0; end < copies_.size(); ++end) {
      const BoxCopy& copy = copies_[end];
      const DTypeInfo dtype = checkpoint_.Info(copy.logical).dtype;
      const uint64_t bytes = Volume(copy.box) / dtype.block_elements * dtype.block_bytes;
      if (end > begin && total + bytes > kCopyBytes) break;
      total += bytes;
      auto& image = memory.emplace_back(bytes);
      DSCKPT_RETURN_IF_ERROR(AddTransfer(copy.logical, copy.part, copy.box, copy.box, image));
    }
    DSCKPT_RETURN_IF_ERROR(RunTransfers());
    for (size_t i = begin; i < end; ++i) {
      DSCKPT_RETURN_IF_ERROR(Merge(copies_[i], memory[i - begin]));
    }
    begin = end;
  }
  return Status();
}

/// `transfers` of one shard, by tensor. Each chunk is read and checked once, whoever wants it.
Status BoxReader::ReadShard(uint32_t shard, std::span<const BoxTransfer> transfers) const {
  DSCKPT_ASSIGN_OR_RETURN(const File file, checkpoint_.OpenShard(shard));
  const File::Impl& impl = file.impl();
  struct Item {
    StoredItem stored;
    std::span<const BoxTransfer> transfers;
  };
  std::vector<Item> items;
  for (size_t begin = 0; begin < transfers.size();) {
    size_t end = begin;
    while (end < transfers.size() && transfers[end].tensor == transfers[begin].tensor) ++end;
    DSCKPT_ASSIGN_OR_RETURN(StoredItem stored, impl.ReadableTensor(transfers[begin].tensor));
    items.push_back({std::move(stored), transfers.subspan(begin, end - begin)});
    begin = end;
  }
  std::sort(items.begin(), items.end(),
            [](const Item& a, const Item& b) { return a.stored.offset < b.stored.offset; });
  ChunkPlan plan;
  for (uint32_t i = 0; i < items.size(); ++i) {
    const StoredItem& stored = items[i].stored;
    uint64_t offset = stored.offset;
    for (uint32_t chunk = 0; chunk < stored.chunk_count(); ++chunk) {
      const uint64_t begin = chunk * kChunkBytes;
      const uint64_t end = begin + stored.raw_length(chunk);
      const auto wants = [&](const BoxTransfer& transfer) {
        return transfer.runs.Overlaps(begin, end);
      };
      if (std::any_of(items[i].transfers.begin(), items[i].transfers.end(), wants)) {
        plan.spans.push_back({offset, stored.stored_length(chunk)});
        plan.chunks.push_back({i, chunk});
      }
      offset += stored.stored_length(chunk);
    }
  }
  if (stepwise_) {
    for (size_t i = 0; i < plan.chunks.size(); ++i) {
      const auto [item, chunk] = plan.chunks[i];
      const uint32_t tensor = items[item].transfers[0].tensor;
      const auto cached = checkpoint_.chunks.Get({shard, tensor, chunk, verify_}, *impl.input,
                                                 items[item].stored, plan.spans[i].offset);
      if (!cached.ok()) return InFile(cached.status(), *impl.input);
      for (const BoxTransfer& transfer : items[item].transfers) {
        transfer.runs.Copy((*cached)->raw(), chunk * kChunkBytes, transfer.out);
      }
    }
    return Status();
  }
  ScratchPool scratch;
  return InFile(ReadChunks(*impl.input, plan, impl.threads,
                           [&](ChunkRef ref, std::span<const std::byte> bytes) {
                             const Item& item = items[ref.item];
                             ScratchPool::Lease lease(scratch);
                             DSCKPT_ASSIGN_OR_RETURN(
                                 const auto raw,
                                 RawChunk(item.stored, ref.chunk, bytes, verify_, *lease));
                             for (const BoxTransfer& transfer : item.transfers) {
                               transfer.runs.Copy(raw, ref.chunk * kChunkBytes, transfer.out);
                             }
                             return Status();
                           }),
                *impl.input);
}

/// Compares a copy with what `out` holds of its elements by now, then puts it there.
Status BoxReader::Merge(const BoxCopy& copy, std::span<const std::byte> bytes) {
  const DTypeInfo dtype = checkpoint_.Info(copy.logical).dtype;
  std::optional<Box> differs;
  if (copy.fills) {
    const auto [overlay, is_new] =
        overlays_.try_emplace(copy.out.data(), dtype, copy.out_box, copy.out);
    differs = overlay->second.Lay(copy.box, bytes);
  } else {
    const auto there = Cutout(dtype, copy.out_box, copy.out, copy.box);
    differs = FirstDifference(dtype, copy.box, there, bytes);
  }
  if (!differs) return Status();
  return Status(StatusCode::kMismatch,
                checkpoint_.Title(copy.logical) + ": shards hold different values for elements " +
                    BoxText(*differs) +
                    ", this one among them: declare pieces, or give rank-specific "
                    "tensors names of their own")
      .WithPath(checkpoint_.shard_paths[copy.part.shard]);
}

Status ReadBlocks(const Checkpoint::Impl& checkpoint, uint32_t tensor, uint64_t first,
                  std::span<std::byte> out, bool verify) {
  const LogicalTensorInfo info = checkpoint.Info(tensor);
  const uint32_t block = info.dtype.block_elements;
  OwnedPiece range;
  range.logical_shape.assign(info.shape.begin(), info.shape.end());
  range.form = Piece::Form::kFlat;
  range.flat = {static_cast<int64_t>(first * block),
                static_cast<int64_t>((first + out.size() / info.dtype.block_bytes) * block)};
  std::vector<Box> boxes;
  ForEachBox(range, block, [&](const Box& box, uint64_t) { boxes.push_back(box); });
  std::vector<BoxRequest> requests;
  for (const Box& box : boxes) {
    const uint64_t bytes = Volume(box) / block * info.dtype.block_bytes;
    requests.push_back({info.name, box, false, out.first(bytes)});
    out = out.subspan(bytes);
  }
  return ReadBoxes(checkpoint, requests, verify, true);
}

Status ReadBoxes(const Checkpoint::Impl& checkpoint, std::span<const BoxRequest> requests,
                 bool verify, bool stepwise) {
  BoxReader reader(checkpoint, verify, stepwise);
  for (const BoxRequest& request : requests) DSCKPT_RETURN_IF_ERROR(reader.Add(request));
  return reader.Run();
}

}  // namespace dsckpt::reader
