#include "format/checksum.h"

#include <xxhash.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/support/catch.h"

using namespace dsckpt;
using namespace dsckpt::format;

namespace {

std::vector<std::byte> Pattern(size_t bytes) {
  std::vector<std::byte> out(bytes);
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(i * 2654435761u >> 13);
  return out;
}

}  // namespace

TEST_CASE("XXH3 known answers") {
  // Of no bytes, seed 0: xxHash's own sanity checks.
  CHECK(Hash64({}) == 0x2D06800538D394C2);
  CHECK(ToHex(HashChunk({})) == "99aa06d3014798d86001c324468d497f");
}

TEST_CASE("one-shot and streaming agree with libxxhash") {
  // Around XXH3's own thresholds (16, 128, 240, its 1 KiB block) and a whole chunk.
  for (const size_t bytes : {0, 1, 16, 17, 128, 129, 240, 241, 1024, 1025, 65537, 4 << 20}) {
    INFO(bytes);
    const auto data = Pattern(bytes);
    const XXH128_hash_t expected = XXH3_128bits(data.data(), data.size());
    const Hash128 hash = HashChunk(data);
    CHECK(hash == Hash128{expected.low64, expected.high64});
    CHECK(Hash64(data) == XXH3_64bits(data.data(), data.size()));
    ChunkHasher hasher;
    hasher.Update(Pattern(3));
    hasher.Reset();
    for (size_t at = 0, step = 1; at < bytes; at += step, step = step * 3 + 1) {
      hasher.Update(std::span(data).subspan(at, std::min(step, bytes - at)));
    }
    ChunkHasher moved = std::move(hasher);
    CHECK(moved.Digest() == hash);
  }
}

TEST_CASE("a tensor's digest covers dtype, shape and sums, in the layout of the specification") {
  const Hash128 sums[] = {{1, 2}, {0x1122334455667788, ~uint64_t{0}}};
  const int64_t shape[] = {3, -2};
  const unsigned char text[] = {1,    0,    12,   0,    2,   0,   0,   0,  // id, dtype, rank
                                3,    0,    0,    0,    0,   0,   0,   0,   254,  255,  255,  255,
                                255,  255,  255,  255,  1,   0,   0,   0,   0,    0,    0,    0,
                                2,    0,    0,    0,    0,   0,   0,   0,   0x88, 0x77, 0x66, 0x55,
                                0x44, 0x33, 0x22, 0x11, 255, 255, 255, 255, 255,  255,  255,  255};
  CHECK(TensorDigest(12, shape, sums) == HashChunk(std::as_bytes(std::span(text))));
  const int64_t dims[] = {5'000'000'000};
  CHECK(ObjectDigest(5'000'000'000, sums) == TensorDigest(0, dims, sums));
  CHECK_FALSE(TensorDigest(12, shape, sums) == TensorDigest(13, shape, sums));
}

TEST_CASE("hex of a hash, high half first") {
  CHECK(ToHex({0x0123456789abcdef, 0xfedcba9876543210}) == "fedcba98765432100123456789abcdef");
}

TEST_CASE("chunks of an item") {
  CHECK(ChunkCount(0) == 0);
  CHECK(ChunkCount(1) == 1);
  CHECK(ChunkCount(kChunkBytes) == 1);
  CHECK(ChunkCount(kChunkBytes + 1) == 2);
  CHECK(ChunkCount(~uint64_t{0}) == (uint64_t{1} << 42));
}
