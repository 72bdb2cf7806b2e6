#include "format/codec.h"

#include <zdict.h>
#include <zstd.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "dsckpt/limits.h"
#include "tests/support/catch.h"

using namespace dsckpt;
using namespace dsckpt::format;

namespace {

using Buffer = std::vector<std::byte>;

// Numbers like weights: the high bytes repeat, the low ones do not.
Buffer Weights(size_t bytes) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> values(bytes / 4 + 1);
  for (float& value : values) value = normal(random);
  Buffer out(bytes);
  if (bytes != 0) std::memcpy(out.data(), values.data(), bytes);
  return out;
}

Buffer Noise(size_t bytes) {
  std::mt19937 random(8);
  Buffer out(bytes);
  for (std::byte& b : out) b = static_cast<std::byte>(random());
  return out;
}

Buffer Copy(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

Buffer Frame(const Buffer& raw, const std::function<void(ZSTD_CCtx*)>& configure = {},
             const Buffer& dictionary = {}) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  if (configure) configure(context);
  if (!dictionary.empty()) {
    ZSTD_CCtx_loadDictionary(context, dictionary.data(), dictionary.size());
  }
  Buffer out(ZSTD_compressBound(raw.size()));
  out.resize(ZSTD_compress2(context, out.data(), out.size(), raw.data(), raw.size()));
  ZSTD_freeCCtx(context);
  return out;
}

}  // namespace

TEST_CASE("encoding names") {
  CHECK(std::string(EncodingName(Encoding::kRaw)) == "raw");
  CHECK(std::string(EncodingName(Encoding::kZstd)) == "zstd");
  CHECK(std::string(EncodingName(Encoding::kBytePlaneZstd)) == "byteplane-zstd");
  CHECK(std::string(EncodingName(Encoding{3})) == "unknown");
}

TEST_CASE("chunks come back") {
  ChunkEncoder encoder;
  ChunkDecoder decoder;
  for (const Encoding encoding : {Encoding::kRaw, Encoding::kZstd, Encoding::kBytePlaneZstd}) {
    for (const uint32_t width : {1, 2, 4, 8, 16, 5}) {
      for (const size_t elements : {0, 1, 2, 3, 1000, 65537}) {
        for (const bool noise : {false, true}) {
          INFO(EncodingName(encoding) << " " << width << " " << elements << " " << noise);
          const Buffer raw = noise ? Noise(elements * width) : Weights(elements * width);
          const auto stored = encoder.Encode(encoding, width, raw);
          REQUIRE(stored.ok());
          REQUIRE(stored.value().size() <= raw.size());
          if (encoding == Encoding::kRaw || noise) {
            REQUIRE(stored.value().data() == raw.data());
          }
          Buffer out(raw.size());
          REQUIRE(decoder.Decode(encoding, width, Copy(stored.value()), out).ok());
          REQUIRE(out == raw);
        }
      }
    }
  }
}

TEST_CASE("a whole chunk of weights shrinks, more so in planes, and the same each time") {
  const Buffer raw = Weights(kChunkBytes);
  ChunkEncoder encoder;
  const Buffer zstd = Copy(encoder.Encode(Encoding::kZstd, 4, raw).value());
  const Buffer planes = Copy(encoder.Encode(Encoding::kBytePlaneZstd, 4, raw).value());
  CHECK(zstd.size() < raw.size());
  CHECK(planes.size() < zstd.size());
  CHECK(Copy(encoder.Encode(Encoding::kZstd, 4, raw).value()) == zstd);
  CHECK(Copy(ChunkEncoder().Encode(Encoding::kBytePlaneZstd, 4, raw).value()) == planes);
}

TEST_CASE("planes: byte j of each element, one plane after another") {
  Buffer raw(4096 * 4), expected(raw.size());
  for (size_t i = 0; i < 4096; ++i) {
    for (size_t j = 0; j < 4; ++j) {
      raw[i * 4 + j] = static_cast<std::byte>(j);
      expected[j * 4096 + i] = static_cast<std::byte>(j);
    }
  }
  ChunkEncoder encoder;
  const auto stored = encoder.Encode(Encoding::kBytePlaneZstd, 4, raw).value();
  Buffer plain(raw.size());
  REQUIRE(ZSTD_decompress(plain.data(), plain.size(), stored.data(), stored.size()) == raw.size());
  CHECK(plain == expected);
  // Content size present, neither checksum nor dictionary id: the descriptor byte has size bits.
  CHECK(ZSTD_getFrameContentSize(stored.data(), stored.size()) == raw.size());
  CHECK((static_cast<uint8_t>(stored[4]) & 0x07) == 0);
}

TEST_CASE("what an encoder refuses") {
  ChunkEncoder encoder;
  const Buffer raw(10);
  CHECK(encoder.Encode(Encoding{9}, 1, raw).status().code() == StatusCode::kUnsupported);
  CHECK(encoder.Encode(Encoding::kBytePlaneZstd, 4, raw).status().code() ==
        StatusCode::kInvalidArgument);
  CHECK(encoder.Encode(Encoding::kBytePlaneZstd, 0, raw).status().code() ==
        StatusCode::kInvalidArgument);
  CHECK(encoder.Encode(Encoding::kZstd, 1, Buffer(kChunkBytes + 1)).status().code() ==
        StatusCode::kInvalidArgument);
}

TEST_CASE("what a decoder refuses") {
  const Buffer raw = Weights(4096 * 4);
  const Buffer zeros(raw.size());
  const Buffer good = Frame(zeros);
  Buffer skippable = {std::byte{0x50}, std::byte{0x2A}, std::byte{0x4D}, std::byte{0x18},
                      std::byte{0},    std::byte{0},    std::byte{0},    std::byte{0}};
  Buffer skippable_first = skippable, skippable_last = good, twice = good, cut = good;
  skippable_first.insert(skippable_first.end(), good.begin(), good.end());
  skippable_last.insert(skippable_last.end(), skippable.begin(), skippable.end());
  twice.insert(twice.end(), good.begin(), good.end());
  cut.pop_back();
  Buffer longer = zeros;
  longer.push_back({});
  Buffer flipped = Frame(raw);
  for (size_t i = 20; i < 40; ++i) flipped[i] ^= std::byte{0xFF};
  const Buffer unsized =
      Frame(zeros, [](ZSTD_CCtx* c) { ZSTD_CCtx_setParameter(c, ZSTD_c_contentSizeFlag, 0); });

  struct Row {
    Encoding encoding;
    uint32_t width;
    Buffer stored;
    StatusCode code;
    const char* message;
  };
  const Row rows[] = {
      {Encoding::kZstd, 1, good, StatusCode::kOk, ""},
      {Encoding{3}, 1, good, StatusCode::kUnsupported, "encoding 3 is not known"},
      {Encoding::kRaw, 1, good, StatusCode::kCorrupt, "is stored in"},
      {Encoding::kZstd, 1, longer, StatusCode::kCorrupt, "is stored in 16385"},
      {Encoding::kZstd, 1, {}, StatusCode::kCorrupt, "does not begin with a zstd frame"},
      {Encoding::kZstd, 1, Buffer(3), StatusCode::kCorrupt, "does not begin with a zstd frame"},
      {Encoding::kZstd, 1, Buffer(100), StatusCode::kCorrupt, "does not begin with a zstd frame"},
      {Encoding::kZstd, 1, skippable, StatusCode::kCorrupt, "does not begin with a zstd frame"},
      {Encoding::kZstd, 1, skippable_first, StatusCode::kCorrupt, "does not begin"},
      {Encoding::kZstd, 1, skippable_last, StatusCode::kCorrupt, "bytes of"},
      {Encoding::kZstd, 1, twice, StatusCode::kCorrupt, "bytes of"},
      {Encoding::kZstd, 1, cut, StatusCode::kCorrupt, "zstd: "},
      {Encoding::kZstd, 1, flipped, StatusCode::kCorrupt, "zstd: "},
      {Encoding::kZstd, 1, unsized, StatusCode::kCorrupt, "does not declare its content size"},
      {Encoding::kZstd, 1, Frame(Buffer(5)), StatusCode::kCorrupt,
       "declares 5 bytes, expected 16384"},
      {Encoding::kZstd, 1, Frame(Buffer(1 << 20)), StatusCode::kCorrupt, "declares 1048576 bytes"},
      {Encoding::kBytePlaneZstd, 3, good, StatusCode::kCorrupt, "do not divide"},
      {Encoding::kBytePlaneZstd, 0, good, StatusCode::kCorrupt, "do not divide"},
  };
  ChunkDecoder decoder;
  for (const Row& row : rows) {
    Buffer out(raw.size());
    const Status status = decoder.Decode(row.encoding, row.width, row.stored, out);
    INFO(status.ToString() << " / " << row.message);
    CHECK(std::string(StatusCodeName(status.code())) == StatusCodeName(row.code));
    CHECK(status.message().find(row.message) != std::string::npos);
  }
  Buffer too_large(kChunkBytes + 1);
  CHECK(decoder.Decode(Encoding::kZstd, 1, good, too_large).code() == StatusCode::kCorrupt);
}

TEST_CASE("a frame that needs a dictionary is refused") {
  // A dictionary with an id: magic, id, then what zstd's own trainer makes of samples.
  std::vector<size_t> sizes;
  Buffer samples;
  for (int i = 0; i < 2000; ++i) {
    const std::string text = "sample number " + std::to_string(i * 7919) + " of many";
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    samples.insert(samples.end(), bytes.begin(), bytes.end());
    sizes.push_back(bytes.size());
  }
  Buffer dictionary(4096);
  dictionary.resize(ZDICT_trainFromBuffer(dictionary.data(), dictionary.size(), samples.data(),
                                          sizes.data(), static_cast<unsigned>(sizes.size())));
  const Buffer raw(samples.begin(), samples.begin() + 4096);
  const Buffer stored = Frame(raw, {}, dictionary);
  Buffer out(raw.size());
  const Status status = ChunkDecoder().Decode(Encoding::kZstd, 1, stored, out);
  CHECK(status.code() == StatusCode::kCorrupt);
  CHECK(status.message().find("needs a dictionary") != std::string::npos);
}
