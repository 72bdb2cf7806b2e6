#ifndef DSCKPT_LIMITS_H_
#define DSCKPT_LIMITS_H_

#include <cstdint>
#include <string_view>

#include "dsckpt/export.h"

// Constants and limits of version 1 of the container format (spec/format.md, "Limits"). A writer
// refuses what exceeds a limit before it creates a file, and a reader refuses it before it
// allocates memory for it.

namespace DSCKPT_EXPORT dsckpt {

/// 1,024 bytes.
inline constexpr uint64_t kKiB = uint64_t{1} << 10;
/// 1,024 KiB.
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
/// 1,024 MiB.
inline constexpr uint64_t kGiB = uint64_t{1} << 30;

/// The unit of checksums and of compression inside one item, in raw bytes.
inline constexpr uint64_t kChunkBytes = 4 * kMiB;
/// The alignment, in bytes, of the regions of a shard: the end of the header, the tensors that the
/// JSON header does not list, and the appended items.
inline constexpr uint64_t kPageBytes = 4096;
/// The alignment, in bytes, of each appended item (objects and encoded tensors) and of the index.
inline constexpr uint64_t kLogAlignment = 64;
/// The size, in bytes, of the footer, which ends the file.
inline constexpr uint64_t kFooterBytes = 128;
/// The greatest length of an item's name, in bytes of UTF-8.
inline constexpr uint64_t kMaxNameBytes = 64 * kKiB;
/// The largest window of a zstd frame, in bytes: what RFC 8878 asks every decoder to support.
inline constexpr uint64_t kMaxZstdWindowBytes = 8 * kMiB;
/// The greatest magnitude of an integer of the state tree, in bytes. Converting one to decimal
/// digits takes time quadratic in it.
inline constexpr uint64_t kMaxBigIntBytes = 64 * kKiB;
/// Returns how many bytes the heap ranges of one tree may hold together, when its heap has
/// `heap_bytes`. Ranges may share bytes; without a bound a small file would unfold into a large
/// tree.
constexpr uint64_t MaxBytesInHeapRanges(uint64_t heap_bytes) { return 16 * heap_bytes + 64 * kKiB; }
/// The greatest number of dimensions of a tensor.
inline constexpr uint64_t kMaxRank = 64;
/// The greatest depth of the state tree; the root has depth 1.
inline constexpr uint64_t kMaxTreeDepth = 1000;
/// The greatest number of tensors, of aliases, of objects and of tree nodes in one shard. Ordinals
/// are 32 bits wide.
inline constexpr uint64_t kMaxItems = (uint64_t{1} << 32) - 2;
/// The greatest number of different dtypes, and of different media types, in one shard. Their
/// ordinals are 8 bits wide.
inline constexpr uint64_t kMaxDistinctTypes = 256;
/// The greatest number of entries of vendor data in one shard; see SaveOptions::vendor.
inline constexpr uint64_t kMaxVendors = 32;
/// The greatest size of an index, in bytes. FlatBuffers addresses 31 bits; the margin keeps the
/// arithmetic of every verifier in range.
inline constexpr uint64_t kMaxIndexBytes = (uint64_t{1} << 31) - 64 * kKiB;
/// The greatest size of a manifest, in bytes: half of what FlatBuffers addresses, because every
/// rank of a group reads it. The pieces of a greater one are in parts, each of this size at most.
inline constexpr uint64_t kMaxManifestBytes = kGiB;
/// The greatest number of parts of a manifest.
inline constexpr uint64_t kMaxManifestParts = 1024;
/// The greatest size of a JSON header, in bytes; the stock safetensors loader refuses a longer one.
/// The header of a shard that would need more lists only `__dsckpt__`.
inline constexpr uint64_t kMaxHeaderJsonBytes = 100'000'000;
/// The greatest size of a shard, in bytes: offsets fit a signed 64-bit off_t, with room for a
/// chunk.
inline constexpr uint64_t kMaxFileBytes = (uint64_t{1} << 63) - 2 * kChunkBytes;

/// Members of the safetensors `__metadata__` whose keys begin with this text belong to the format.
inline constexpr std::string_view kOwnMemberPrefix = "dsckpt";

}  // namespace dsckpt

#endif  // DSCKPT_LIMITS_H_
