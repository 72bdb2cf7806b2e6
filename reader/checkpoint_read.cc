#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "reader/box.h"
#include "reader/checkpoint_impl.h"
#include "reader/chunk_reader.h"
#include "reader/file_impl.h"

namespace dsckpt::reader {

namespace {

/// One box of one stored tensor, and where it goes.
struct Transfer {
  uint32_t shard;
  uint32_t tensor;
  BoxRuns runs;
  std::span<std::byte> out;
};

/// Elements that several pieces hold: one copy of them, in memory of its own until it has been
/// compared with what `out` holds of the others.
struct Copy {
  uint32_t logical;
  uint32_t shard;
  Box box;      // of the logical tensor
  Box out_box;  // that `out` holds
  std::span<std::byte> out;
  bool fills;  // `out` gets it; else all of `box` is there already.
  std::vector<std::byte> bytes;
};

std::vector<int64_t> Extents(const Box& box) {
  std::vector<int64_t> extents;
  for (const Range& range : box) extents.push_back(range.end - range.begin);
  return extents;
}

/// `box` as seen from the origin of `frame`.
Box Relative(const Box& box, const Box& frame) {
  Box local = box;
  for (size_t i = 0; i < box.size(); ++i) {
    local[i] = {box[i].begin - frame[i].begin, box[i].end - frame[i].begin};
  }
  return local;
}

std::vector<int64_t> Begins(const Box& box) {
  std::vector<int64_t> begins;
  for (const Range& range : box) begins.push_back(range.begin);
  return begins;
}

/// Collects what the requests of one Read() come to, then does it shard by shard.
class BoxReader {
 public:
  BoxReader(const Checkpoint::Impl& checkpoint, bool verify, bool stepwise)
      : checkpoint_(checkpoint), verify_(verify), stepwise_(stepwise) {}

  Status Add(const BoxRequest& request);
  /// Elements `box` from two parts that hold them, to be compared in `out`, which they fill.
  Status AddPair(uint32_t logical, const Part& a, const Part& b, const Box& box,
                 std::span<std::byte> out) {
    DSCKPT_RETURN_IF_ERROR(AddTransfer(logical, a, box, box, out));
    return AddCopy(logical, b, box, box, out, false);
  }
  Result<bool> SameDigest(const Part& a, const Part& b) const;
  Status Run();

 private:
  Status AddRegion(uint32_t logical, const PartMap& parts, const PartMap::Region& region,
                   const Box& common, const Box& out_box, std::span<std::byte> out);
  Status AddTransfer(uint32_t logical, const Part& part, const Box& common, const Box& out_box,
                     std::span<std::byte> out);
  Status AddCopy(uint32_t logical, const Part& part, const Box& common, const Box& out_box,
                 std::span<std::byte> out, bool fills);
  Status ReadShard(uint32_t shard, std::span<const Transfer> transfers) const;
  Status Merge(size_t copy) const;
  Status Compare(const Copy& copy, const Box& box) const;

  const Checkpoint::Impl& checkpoint_;
  const bool verify_, stepwise_;
  std::vector<Transfer> transfers_;
  std::vector<Copy> copies_;
};

Status BoxReader::Add(const BoxRequest& request) {
  DSCKPT_ASSIGN_OR_RETURN(const uint32_t logical, checkpoint_.TensorOrdinal(request.name));
  const LogicalTensorInfo info = checkpoint_.Info(logical);
  const auto parts = checkpoint_.Parts(logical);
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
  if (const auto gap = parts->Gap(wanted)) {
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
  std::vector<const Part*> distinct;
  for (const Part& part : parts.copies(region)) {
    const auto same = std::find_if(distinct.begin(), distinct.end(), [&](const Part* other) {
      return part.replica_group != 0 && other->replica_group == part.replica_group;
    });
    if (same == distinct.end()) {
      distinct.push_back(&part);
    } else if (!checkpoint_.IsOpen((*same)->shard) && checkpoint_.IsOpen(part.shard)) {
      *same = &part;
    }
  }
  const Part& first = *distinct[0];
  DSCKPT_RETURN_IF_ERROR(region.overlaps ? AddCopy(logical, first, common, out_box, out, true)
                                         : AddTransfer(logical, first, common, out_box, out));
  for (size_t i = 1; i < distinct.size(); ++i) {
    DSCKPT_ASSIGN_OR_RETURN(const bool equal, SameDigest(first, *distinct[i]));
    if (equal) continue;
    DSCKPT_RETURN_IF_ERROR(AddCopy(logical, *distinct[i], common, out_box, out, false));
  }
  return Status();
}

/// True when both parts are whole stored tensors of one dtype, shape and content. False decides
/// nothing: other layouts of the same elements have other digests.
Result<bool> BoxReader::SameDigest(const Part& a, const Part& b) const {
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

Status BoxReader::AddTransfer(uint32_t logical, const Part& part, const Box& common,
                              const Box& out_box, std::span<std::byte> out) {
  DSCKPT_ASSIGN_OR_RETURN(const File file, checkpoint_.OpenShard(part.shard));
  const LogicalTensorInfo info = checkpoint_.Info(logical);
  const auto differs = [&](const std::string& why) {
    return Status(StatusCode::kCorrupt,
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

Status BoxReader::AddCopy(uint32_t logical, const Part& part, const Box& common, const Box& out_box,
                          std::span<std::byte> out, bool fills) {
  const LogicalTensorInfo info = checkpoint_.Info(logical);
  Copy copy{logical, part.shard, common, out_box, out, fills, {}};
  copy.bytes.resize(Volume(common) / info.dtype.block_elements * info.dtype.block_bytes);
  copies_.push_back(std::move(copy));
  return AddTransfer(logical, part, common, common, copies_.back().bytes);
}

Status BoxReader::Run() {
  std::stable_sort(transfers_.begin(), transfers_.end(), [](const Transfer& a, const Transfer& b) {
    return a.shard != b.shard ? a.shard < b.shard : a.tensor < b.tensor;
  });
  for (size_t begin = 0; begin < transfers_.size();) {
    size_t end = begin;
    while (end < transfers_.size() && transfers_[end].shard == transfers_[begin].shard) ++end;
    DSCKPT_RETURN_IF_ERROR(
        ReadShard(transfers_[begin].shard, std::span(transfers_).subspan(begin, end - begin)));
    begin = end;
  }
  for (size_t i = 0; i < copies_.size(); ++i) DSCKPT_RETURN_IF_ERROR(Merge(i));
  return Status();
}

/// `transfers` of one shard, by tensor. Each chunk is read and checked once, whoever wants it.
Status BoxReader::ReadShard(uint32_t shard, std::span<const Transfer> transfers) const {
  DSCKPT_ASSIGN_OR_RETURN(const File file, checkpoint_.OpenShard(shard));
  const File::Impl& impl = file.impl();
  struct Item {
    StoredItem stored;
    std::span<const Transfer> transfers;
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
      const auto wants = [&](const Transfer& transfer) {
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
      for (const Transfer& transfer : items[item].transfers) {
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
                             for (const Transfer& transfer : item.transfers) {
                               transfer.runs.Copy(raw, ref.chunk * kChunkBytes, transfer.out);
                             }
                             return Status();
                           }),
                *impl.input);
}

/// Compares a copy with what `out` holds of its elements by now, then puts it there.
Status BoxReader::Merge(size_t i) const {
  const Copy& copy = copies_[i];
  if (!copy.fills) return Compare(copy, copy.box);
  for (size_t j = 0; j < i; ++j) {
    const Copy& before = copies_[j];
    if (!before.fills || before.out.data() != copy.out.data()) continue;
    const auto common = Intersect(before.box, copy.box);
    if (common) DSCKPT_RETURN_IF_ERROR(Compare(copy, *common));
  }
  const std::vector<int64_t> out_shape = Extents(copy.out_box);
  const std::vector<int64_t> out_begin = Begins(Relative(copy.box, copy.out_box));
  const std::vector<int64_t> shape = Extents(copy.box);
  DSCKPT_ASSIGN_OR_RETURN(const BoxRuns runs,
                          BoxRuns::Make(checkpoint_.Info(copy.logical).dtype, shape,
                                        WholeBox(shape), {out_shape, out_begin}));
  runs.Copy(copy.bytes, 0, copy.out);
  return Status();
}

Status BoxReader::Compare(const Copy& copy, const Box& box) const {
  const DTypeInfo dtype = checkpoint_.Info(copy.logical).dtype;
  const auto image = [&](std::span<const std::byte> bytes,
                         const Box& frame) -> Result<std::vector<std::byte>> {
    DSCKPT_ASSIGN_OR_RETURN(const BoxRuns runs,
                            BoxRuns::Make(dtype, Extents(frame), Relative(box, frame)));
    std::vector<std::byte> out(runs.total_bytes());
    runs.Copy(bytes, 0, out);
    return out;
  };
  DSCKPT_ASSIGN_OR_RETURN(const auto here, image(copy.bytes, copy.box));
  DSCKPT_ASSIGN_OR_RETURN(const auto there, image(copy.out, copy.out_box));
  if (here == there) return Status();
  return Status(StatusCode::kMismatch,
                checkpoint_.Title(copy.logical) + ": shards hold different values for elements " +
                    BoxText(box) +
                    ", this one among them: declare pieces, or give rank-specific "
                    "tensors names of their own")
      .WithPath(checkpoint_.shard_paths[copy.shard]);
}

/// Boxes of at most about kStepBytes that make up `whole`, in row-major order.
std::vector<Box> Steps(const Box& whole, const DTypeInfo& dtype) {
  constexpr uint64_t kStepBytes = 2 * kChunkBytes;
  const uint64_t step = kStepBytes / dtype.block_bytes * dtype.block_elements;
  OwnedPiece range;
  range.logical_shape = Extents(whole);
  range.form = Piece::Form::kFlat;
  std::vector<Box> boxes;
  for (uint64_t begin = 0; begin < Volume(whole); begin += step) {
    range.flat = {static_cast<int64_t>(begin),
                  static_cast<int64_t>(std::min(begin + step, Volume(whole)))};
    ForEachBox(range, dtype.block_elements, [&](const Box& box, uint64_t) {
      boxes.push_back(box);
      for (size_t i = 0; i < whole.size(); ++i) {
        boxes.back()[i].begin += whole[i].begin;
        boxes.back()[i].end += whole[i].begin;
      }
    });
  }
  return boxes;
}

}  // namespace

Status CompareCopies(const Checkpoint::Impl& checkpoint, uint32_t tensor) {
  const LogicalTensorInfo info = checkpoint.Info(tensor);
  const auto parts = checkpoint.Parts(tensor);
  std::vector<std::byte> memory;
  for (const PartMap::Region& region : parts->regions()) {
    const auto copies = parts->copies(region);
    std::vector<const Part*> undecided;
    for (const Part& copy : copies.subspan(1)) {
      DSCKPT_ASSIGN_OR_RETURN(const bool same,
                              BoxReader(checkpoint, true, true).SameDigest(copies[0], copy));
      if (!same) undecided.push_back(&copy);
    }
    if (undecided.empty() && !region.overlaps) continue;
    for (const Box& box : Steps(parts->box(region), info.dtype)) {
      memory.resize(Volume(box) / info.dtype.block_elements * info.dtype.block_bytes);
      BoxReader reader(checkpoint, true, true);
      for (const Part* const copy : undecided) {
        DSCKPT_RETURN_IF_ERROR(reader.AddPair(tensor, copies[0], *copy, box, memory));
      }
      DSCKPT_RETURN_IF_ERROR(reader.Run());
      if (!region.overlaps) continue;
      const BoxRequest request{info.name, box, false, memory};
      DSCKPT_RETURN_IF_ERROR(ReadBoxes(checkpoint, std::span(&request, 1), true, true));
    }
  }
  return Status();
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
