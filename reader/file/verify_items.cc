// Checks the checksums of all chunks in parallel, and the zeros between items.

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "dsckpt/limits.h"
#include "reader/chunk/reader.h"
#include "reader/file/verify_parts.h"

namespace dsckpt::reader {

namespace {

/// ChunkRef::item of a gap, whose number is then ChunkRef::chunk; kObjectBit marks an object's
/// ordinal (the index's size keeps ordinals far below it).
constexpr uint32_t kGap = ~uint32_t{0};
constexpr uint32_t kObjectBit = uint32_t{1} << 31;

/// A span that one read may deliver; larger stored chunks exist only with encodings of the future.
constexpr uint64_t kMaxSpanBytes = 8 * kMiB;

/// An item's place in the file; sorted, they tell the gaps.
struct Place {
  uint64_t offset;
  uint32_t item;
};

StoredItem ItemAt(const format::IndexView& index, uint32_t item) {
  return (item & kObjectBit) != 0 ? ObjectItem(index, item & ~kObjectBit) : TensorItem(index, item);
}

bool IsZero(std::span<const std::byte> bytes) {
  return bytes.empty() || (bytes[0] == std::byte{0} &&
                           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

class ItemPass {
 public:
  ItemPass(Verification& run, const format::IndexView& index) : run_(run), index_(index) {}

  Status Run() {
    Plan();
    const auto consume = [this](ChunkRef ref, std::span<const std::byte> bytes) {
      Check(ref, bytes);
      return Status();
    };
    DSCKPT_RETURN_IF_ERROR(ReadChunks(run_.input, plan_, run_.options.threads, consume));
    return CheckOversized();
  }

 private:
  std::vector<Place> Places() const {
    std::vector<Place> places;
    const uint32_t tensors = index_.tensor_names.size();
    const uint32_t objects = index_.object_names.size();
    places.reserve(tensors + size_t{objects});
    for (uint32_t i = 0; i < tensors; ++i) {
      if (index_.tensors.stored_bytes[i] > 0) places.push_back({index_.tensors.offset[i], i});
    }
    for (uint32_t i = 0; i < objects; ++i) {
      if (index_.objects.stored_bytes[i] > 0) {
        places.push_back({index_.objects.offset[i], i | kObjectBit});
      }
    }
    std::sort(places.begin(), places.end(),
              [](const Place& a, const Place& b) { return a.offset < b.offset; });
    return places;
  }

  void Plan() {
    uint64_t end = run_.footer.data_begin;
    for (const Place& place : Places()) {
      AddGap(end, place.offset);
      const StoredItem item = ItemAt(index_, place.item);
      AddItem(item, place.item);
      end = item.offset + item.stored_bytes;
    }
    AddGap(end, run_.footer.index_offset);
    const uint64_t index_end = run_.footer.index_offset + run_.footer.index_bytes;
    AddGap(index_end, run_.footer.file_bytes - kFooterBytes);
  }

  bool SumsKnown() const { return index_.chunk_sums.hash_id == format::kHashXxh3; }

  void AddGap(uint64_t begin, uint64_t end) {
    while (begin < end) {
      const uint64_t bytes = std::min(end - begin, kChunkBytes);
      plan_.spans.push_back({begin, bytes});
      plan_.chunks.push_back({kGap, static_cast<uint32_t>(gaps_.size())});
      gaps_.push_back(begin);
      begin += bytes;
    }
  }

  void AddItem(const StoredItem& stored, uint32_t item) {
    uint64_t offset = stored.offset;
    const auto count = static_cast<uint32_t>(stored.chunk_count());
    if (!SumsKnown()) {
      run_.problems.Add(stored.name, "unsupported", offset, "hash id 1, XXH3-128",
                        "hash id " + std::to_string(index_.chunk_sums.hash_id));
      // Stored chunks have sums of their own.
      if (!stored.encoded()) return run_.progress.Add(stored.stored_bytes);
    }
    for (uint32_t chunk = 0; chunk < count; ++chunk) {
      const uint64_t length = stored.stored_length(chunk);
      ChunkPlan& plan = length > kMaxSpanBytes ? oversized_ : plan_;
      plan.spans.push_back({offset, length});
      plan.chunks.push_back({item, chunk});
      offset += length;
    }
  }

  Status CheckOversized() {
    std::vector<std::byte> buffer;
    for (size_t i = 0; i < oversized_.spans.size(); ++i) {
      buffer.resize(oversized_.spans[i].bytes);
      DSCKPT_RETURN_IF_ERROR(run_.input.ReadAt(oversized_.spans[i].offset, buffer));
      Check(oversized_.chunks[i], buffer);
    }
    return Status();
  }

  void Check(ChunkRef ref, std::span<const std::byte> bytes) {
    if (ref.item == kGap) {
      CheckGap(gaps_[ref.chunk], bytes);
    } else {
      CheckChunk(ItemAt(index_, ref.item), ref.chunk, bytes);
    }
    run_.progress.Add(bytes.size());
  }

  void CheckGap(uint64_t offset, std::span<const std::byte> bytes) {
    if (IsZero(bytes)) return;
    const auto at =
        std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; });
    run_.problems.Add("padding", "padding", offset + static_cast<uint64_t>(at - bytes.begin()), "0",
                      std::to_string(std::to_integer<unsigned>(*at)));
  }

  void CheckChunk(const StoredItem& item, uint32_t chunk, std::span<const std::byte> bytes) {
    if (!item.encoded()) {
      CheckSum(item, chunk, bytes);
      return;
    }
    const format::StoredChunk& stored = item.stored[chunk];
    if (const uint64_t hash = format::Hash64(bytes); hash != stored.xxh3_64) {
      run_.problems.Add(item.name, "checksum", ChunkOffset(item, chunk), Hex64(stored.xxh3_64),
                        Hex64(hash));
    } else if (run_.options.decode) {
      Decode(item, chunk, bytes);
    }
  }

  void CheckSum(const StoredItem& item, uint32_t chunk, std::span<const std::byte> raw) {
    if (!SumsKnown()) return;
    const Hash128 hash = format::HashChunk(raw);
    if (hash == item.sums[chunk]) return;
    run_.problems.Add(item.name, "checksum", ChunkOffset(item, chunk),
                      format::ToHex(item.sums[chunk]), format::ToHex(hash));
  }

  void Decode(const StoredItem& item, uint32_t chunk, std::span<const std::byte> bytes) {
    ScratchPool::Lease lease(scratch_);
    Scratch& scratch = *lease;
    scratch.chunk.resize(item.raw_length(chunk));
    const Status status =
        scratch.Decoder().Decode(item.encoding, item.element_bytes, bytes, scratch.chunk);
    if (status.ok()) {
      CheckSum(item, chunk, scratch.chunk);
    } else {
      run_.problems.Add(item.name,
                        status.code() == StatusCode::kUnsupported ? "unsupported" : "decode",
                        ChunkOffset(item, chunk),
                        std::to_string(scratch.chunk.size()) + " raw bytes", status.message());
    }
  }

  Verification& run_;
  const format::IndexView& index_;
  ChunkPlan plan_, oversized_;
  std::vector<uint64_t> gaps_;  // offsets
  ScratchPool scratch_;
};

}  // namespace

Status VerifyItems(Verification& run, const format::IndexView& index) {
  return ItemPass(run, index).Run();
}

}  // namespace dsckpt::reader
