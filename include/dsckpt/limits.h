#ifndef DSCKPT_LIMITS_H_
#define DSCKPT_LIMITS_H_

#include <cstdint>
#include <string_view>

namespace dsckpt {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;

/// Limits and constants of container format v1 (spec/format.md, "Limits"). Writers refuse what
/// exceeds them before a file is created; readers refuse it before allocating.

/// Unit of checksum and compression inside one item, in raw bytes.
inline constexpr uint64_t kChunkBytes = 4 * kMiB;
/// Alignment of the regions of a shard: header end, unlisted tensors, log.
inline constexpr uint64_t kPageBytes = 4096;
/// Alignment of log items and of the index.
inline constexpr uint64_t kLogAlignment = 64;
/// Fixed size of the footer, which ends the file.
inline constexpr uint64_t kFooterBytes = 128;
/// Longest item name, in UTF-8 bytes.
inline constexpr uint64_t kMaxNameBytes = 64 * kKiB;
/// Largest window of a zstd frame: what RFC 8878 asks every decoder to support.
inline constexpr uint64_t kMaxZstdWindowBytes = 8 * kMiB;
/// Longest magnitude of an integer of the state tree. Converting to decimal digits takes time
/// quadratic in it.
inline constexpr uint64_t kMaxBigIntBytes = 64 * kKiB;
/// What the heap ranges of one tree may hold together, when its heap has `heap_bytes`. Ranges may
/// share bytes; without a bound a small file would unfold into a large tree.
constexpr uint64_t MaxBytesInHeapRanges(uint64_t heap_bytes) { return 16 * heap_bytes + 64 * kKiB; }
/// Dimensions of one tensor.
inline constexpr uint64_t kMaxRank = 64;
/// Nesting of the state tree; the root has depth 1.
inline constexpr uint64_t kMaxTreeDepth = 1000;
/// Tensors, aliases, objects or tree nodes in one shard: ordinals are 32 bits wide.
inline constexpr uint64_t kMaxItems = (uint64_t{1} << 32) - 2;
/// Distinct dtypes, and distinct media types, in one shard: their ordinals are 8 bits wide.
inline constexpr uint64_t kMaxDistinctTypes = 256;
/// FlatBuffers addresses 31 bits; the margin keeps every verifier's own arithmetic in range.
inline constexpr uint64_t kMaxIndexBytes = (uint64_t{1} << 31) - 64 * kKiB;
/// Largest manifest. Half of what FlatBuffers addresses: every rank of a group reads it.
inline constexpr uint64_t kMaxManifestBytes = kGiB;
/// safetensors' cap on its JSON header (the stock loader refuses more). Above it a shard's header
/// lists only `__dsckpt__`.
inline constexpr uint64_t kMaxHeaderJsonBytes = 100'000'000;
/// Largest shard: offsets stay inside a signed 64-bit off_t with room for one chunk.
inline constexpr uint64_t kMaxFileBytes = (uint64_t{1} << 63) - 2 * kChunkBytes;

/// Members of `__metadata__` whose keys begin so are the format's own.
inline constexpr std::string_view kOwnMemberPrefix = "dsckpt";

}  // namespace dsckpt

#endif  // DSCKPT_LIMITS_H_
