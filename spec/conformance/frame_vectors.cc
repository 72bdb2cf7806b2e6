// Shards whose one encoded chunk is a frame made by hand: those that break section 7, "Frames", of
// spec/format.md open, and do not decode. By hand, so that no version of zstd changes a byte.

#include <xxhash.h>

#include "base/align.h"
#include "dsckpt/limits.h"
#include "format/checksum.h"
#include "format/index/index.h"
#include "spec/conformance/patch.h"
#include "spec/conformance/vectors.h"

namespace dsckpt::conformance {
namespace {

using namespace std::string_literals;

// Of the frame formats of RFC 8878, section 3.1.1.
const std::string kMagic = "\x28\xB5\x2F\xFD";
const std::string kSize512 = "\x00\x01"s;                       // Two bytes: content size less 256.
const std::string kBlock = "\x03\x10\x00"s + kFrameByte;        // Last, run of 512 equal bytes.
const std::string kGood = kMagic + "\x60" + kSize512 + kBlock;  // A single segment.
const std::string kEmptyFrame = kMagic + "\x20\x00\x01\x00\x00"s;
const std::string kSkippable = "\x50\x2A\x4D\x18\x00\x00\x00\x00"s;

// With a window of its own: `descriptor` as in section 3.1.1.1.2.
std::string Windowed(char descriptor) { return kMagic + "\x40" + descriptor + kSize512 + kBlock; }

std::string WithContentChecksum() {
  const std::string content(kFrameBytes, kFrameByte);
  std::string frame = kMagic + "\x64" + kSize512 + kBlock;
  for (uint64_t sum = XXH64(content.data(), content.size(), 0), i = 0; i < 4; ++i) {
    frame += static_cast<char>(sum >> (8 * i) & 0xFF);
  }
  return frame;
}

// REQUIRES: the shard's one item is encoded, in one chunk.
std::string WithFrame(const std::string& shard, const std::string& frame) {
  return WithParts(shard, [&](Parts& parts) {
    format::IndexColumns columns = ColumnsOf(parts).value();
    parts.body.resize(columns.tensors.offset[0]);
    parts.body += frame;
    parts.body.resize(RoundUp(parts.body.size(), kLogAlignment));
    columns.tensors.stored_bytes[0] = frame.size();
    columns.stored_chunks[0] = {format::Hash64(std::as_bytes(std::span(frame))),
                                static_cast<uint32_t>(frame.size()), 0};
    const std::vector<std::byte> index = format::EncodeIndex(columns).value();
    parts.index.assign(reinterpret_cast<const char*>(index.data()), index.size());
  });
}

}  // namespace

std::vector<FutureVector> FrameVectors(const std::string& shard) {
  return {{"frame-run", WithFrame(shard, kGood)},
          {"frame-checksum", WithFrame(shard, WithContentChecksum())},
          {"frame-window-4-mib", WithFrame(shard, Windowed('\x60'))},
          {"frame-window-8-mib", WithFrame(shard, Windowed('\x68'))}};
}

std::vector<InvalidVector> InvalidFrames(const std::string& shard) {
  std::vector<InvalidVector> vectors;
  const auto add = [&](const std::string& name, const std::string& frame) {
    vectors.push_back(
        {"v-frame-" + name, WithFrame(shard, frame), StatusCode::kOk, "", "t", "decode"});
  };
  add("no-content-size", kMagic + "\x00\x00"s + kBlock);
  add("content-size-less", kMagic + "\x60\xFF\x00"s + kBlock);
  add("content-size-more", kMagic + "\x60\x01\x01" + kBlock);
  add("content-less", kMagic + "\x60" + kSize512 + "\x03\x08\x00"s + kFrameByte);
  add("two-frames", kGood + kEmptyFrame);
  add("skippable-before", kSkippable + kGood);
  add("skippable-after", kGood + kSkippable);
  add("skippable-alone", kSkippable);
  add("trailing-byte", kGood + '\0');
  add("dictionary", kMagic + "\x61\x01" + kSize512 + kBlock);
  add("cut", kGood.substr(0, kGood.size() - 1));
  add("cut-in-header", kGood.substr(0, 5));
  add("magicless", kGood.substr(4));
  add("garbage", "no frame at all");
  add("window-above-8-mib", Windowed('\x69'));
  return vectors;
}

}  // namespace dsckpt::conformance
