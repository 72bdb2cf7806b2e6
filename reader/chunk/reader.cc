#include "reader/chunk/reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "dsckpt/limits.h"
#include "reader/chunk/device_load.h"

namespace dsckpt::reader {

namespace {

/// Copy and hash alternate in blocks of this size, so that the hash finds its input in the cache.
constexpr size_t kBlockBytes = 128 * 1024;

Status CheckSum(const StoredItem& item, uint64_t chunk, const Hash128& found) {
  if (found == item.sums[chunk]) return Status();
  return ChecksumError(item, chunk, ChunkOffset(item, chunk), format::ToHex(item.sums[chunk]),
                       format::ToHex(found));
}

/// Plain safetensors has no sums to check.
Status CheckRaw(const StoredItem& item, uint64_t chunk, std::span<const std::byte> raw) {
  if (item.sums.empty()) return Status();
  return CheckSum(item, chunk, format::HashChunk(raw));
}

Status CopyRaw(const StoredItem& item, uint64_t chunk, std::span<const std::byte> raw,
               std::byte* to, bool verify, Scratch& scratch) {
  const bool check = verify && !item.sums.empty();
  if (!check || raw.size() <= kBlockBytes) {
    std::memcpy(to, raw.data(), raw.size());
    return check ? CheckRaw(item, chunk, {to, raw.size()}) : Status();
  }
  scratch.hasher.Reset();
  for (size_t done = 0; done < raw.size(); done += kBlockBytes) {
    const auto block = raw.subspan(done, std::min(kBlockBytes, raw.size() - done));
    std::memcpy(to + done, block.data(), block.size());
    scratch.hasher.Update(block);
  }
  return CheckSum(item, chunk, scratch.hasher.Digest());
}

/// Stored sum, frame, and raw sum when `verify`.
Status Decode(const StoredItem& item, uint64_t chunk, std::span<const std::byte> stored,
              std::span<std::byte> raw, bool verify, Scratch& scratch) {
  if (const uint64_t hash = format::Hash64(stored); hash != item.stored[chunk].xxh3_64) {
    return ChecksumError(item, chunk, ChunkOffset(item, chunk), Hex64(item.stored[chunk].xxh3_64),
                         Hex64(hash));
  }
  if (Status status = scratch.Decoder().Decode(item.encoding, item.element_bytes, stored, raw);
      !status.ok()) {
    const uint64_t offset = ChunkOffset(item, chunk);
    return Status(status.code(), item.Title() + ": chunk " + std::to_string(chunk) + " at offset " +
                                     std::to_string(offset) +
                                     " does not decode: " + status.message())
        .WithOffset(offset);
  }
  return verify ? CheckRaw(item, chunk, raw) : Status();
}

}  // namespace

ScratchPool::Lease::Lease(ScratchPool& pool) : pool_(pool) {
  {
    MutexLock lock(pool_.mutex_);
    if (!pool_.free_.empty()) {
      scratch_ = std::move(pool_.free_.back());
      pool_.free_.pop_back();
    }
  }
  if (!scratch_) scratch_ = std::make_unique<Scratch>();
}

ScratchPool::Lease::~Lease() {
  MutexLock lock(pool_.mutex_);
  pool_.free_.push_back(std::move(scratch_));
}

void ChunkPlan::Append(const StoredItem& stored, uint32_t item) {
  uint64_t offset = stored.offset;
  const auto count = static_cast<uint32_t>(stored.chunk_count());
  for (uint32_t chunk = 0; chunk < count; ++chunk) {
    const uint64_t length = stored.stored_length(chunk);
    spans.push_back({offset, length});
    chunks.push_back({item, chunk});
    offset += length;
  }
}

Status ReadChunks(const io::InputFile& input, const ChunkPlan& plan, int threads,
                  const ChunkConsumer& consume, DeviceLoad* devices) {
  uint64_t total = 0;
  for (const io::ReadSpan& span : plan.spans) total += span.bytes;
  const bool small = plan.spans.size() == 1 || (plan.spans.size() <= 4 && total <= kMiB);
  if (!small) {
    io::StreamOptions options;
    options.threads = threads;
    if (devices != nullptr) {
      options.before = [&](std::span<std::byte> memory) { devices->Register(memory); };
      options.after = [&](std::span<std::byte> memory) { devices->Unregister(memory); };
    }
    return io::ReadSpans(
        input, plan.spans, options,
        [&](size_t i, std::span<const std::byte> bytes) { return consume(plan.chunks[i], bytes); });
  }
  // Starting threads would cost more than they save.
  std::vector<std::byte> buffer;
  for (size_t i = 0; i < plan.spans.size(); ++i) {
    buffer.resize(plan.spans[i].bytes);
    DSCKPT_RETURN_IF_ERROR(input.ReadAt(plan.spans[i].offset, buffer));
    DSCKPT_RETURN_IF_ERROR(consume(plan.chunks[i], buffer));
  }
  return Status();
}

uint64_t ChunkOffset(const StoredItem& item, uint64_t chunk) {
  if (!item.encoded()) return item.offset + chunk * kChunkBytes;
  uint64_t offset = item.offset;
  for (uint64_t i = 0; i < chunk; ++i) offset += item.stored[i].stored_bytes;
  return offset;
}

Result<std::span<const std::byte>> RawChunk(const StoredItem& item, uint64_t chunk,
                                            std::span<const std::byte> stored, bool verify,
                                            Scratch& scratch) {
  if (!item.encoded()) {
    if (verify) DSCKPT_RETURN_IF_ERROR(CheckRaw(item, chunk, stored));
    return stored;
  }
  scratch.chunk.resize(item.raw_length(chunk));
  DSCKPT_RETURN_IF_ERROR(Decode(item, chunk, stored, scratch.chunk, verify, scratch));
  return std::span<const std::byte>(scratch.chunk);
}

Status PlaceChunk(const StoredItem& item, uint64_t chunk, std::span<const std::byte> stored,
                  const Destination& to, bool verify, Scratch& scratch) {
  const uint64_t begin = chunk * kChunkBytes;
  if (to.strided) {
    DSCKPT_ASSIGN_OR_RETURN(const auto raw, RawChunk(item, chunk, stored, verify, scratch));
    Scatter(*to.strided, begin, raw);
    return Status();
  }
  if (!item.encoded()) return CopyRaw(item, chunk, stored, to.data + begin, verify, scratch);
  return Decode(item, chunk, stored, {to.data + begin, item.raw_length(chunk)}, verify, scratch);
}

Status ReadItem(const io::InputFile& input, const StoredItem& item, std::span<std::byte> out,
                int threads) {
  if (!item.encoded() && item.chunk_count() == 1) {
    DSCKPT_RETURN_IF_ERROR(input.ReadAt(item.offset, out));
    return CheckRaw(item, 0, out);
  }
  ChunkPlan plan;
  plan.Append(item, 0);
  ScratchPool scratch;
  const Destination to{out.data(), std::nullopt};
  return ReadChunks(input, plan, threads, [&](ChunkRef ref, std::span<const std::byte> stored) {
    ScratchPool::Lease lease(scratch);
    return PlaceChunk(item, ref.chunk, stored, to, true, *lease);
  });
}

}  // namespace dsckpt::reader
