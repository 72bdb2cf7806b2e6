#include "format/footer/footer.h"

#include <cstring>

#include "base/little_endian.h"
#include "format/checksum.h"

namespace dsckpt::format {
namespace {

// Field offsets (spec/format.md, "Footer").
constexpr size_t kFileBytesAt = 0;
constexpr size_t kDataBeginAt = 8;
constexpr size_t kTailBeginAt = 16;
constexpr size_t kIndexOffsetAt = 24;
constexpr size_t kIndexBytesAt = 32;
constexpr size_t kIndexHashAt = 40;
constexpr size_t kHeaderHashAt = 48;
constexpr size_t kMajorAt = 56;
constexpr size_t kMinorAt = 58;
constexpr size_t kLengthAt = 60;
constexpr size_t kMustUnderstandAt = 64;
constexpr size_t kCompatibleAt = 72;
constexpr size_t kReservedAt = 80;
constexpr size_t kOwnHashAt = 112;
constexpr size_t kMagicAt = 120;

}  // namespace

std::array<std::byte, kFooterBytes> EncodeFooter(const Footer& footer) {
  std::array<std::byte, kFooterBytes> bytes{};
  const auto put = [&bytes](size_t at, auto value) { StoreLittleEndian(bytes.data() + at, value); };
  put(kFileBytesAt, footer.file_bytes);
  put(kDataBeginAt, footer.data_begin);
  put(kTailBeginAt, footer.tail_begin);
  put(kIndexOffsetAt, footer.index_offset);
  put(kIndexBytesAt, footer.index_bytes);
  put(kIndexHashAt, footer.index_xxh3_64);
  put(kHeaderHashAt, footer.header_xxh3_64);
  put(kMajorAt, footer.version_major);
  put(kMinorAt, footer.version_minor);
  put(kLengthAt, static_cast<uint32_t>(kFooterBytes));
  put(kMustUnderstandAt, footer.must_understand);
  put(kCompatibleAt, footer.compatible);
  put(kOwnHashAt, Hash64(std::span(bytes).first(kOwnHashAt)));
  std::memcpy(bytes.data() + kMagicAt, kFooterMagic.data(), kFooterMagic.size());
  return bytes;
}

bool HasFooterMagic(std::span<const std::byte> tail) {
  return tail.size() >= kFooterMagic.size() &&
         std::memcmp(tail.data() + tail.size() - kFooterMagic.size(), kFooterMagic.data(),
                     kFooterMagic.size()) == 0;
}

Result<Footer> DecodeFooter(std::span<const std::byte, kFooterBytes> bytes) {
  const auto at = [&bytes](size_t offset) { return bytes.data() + offset; };
  const auto get64 = [&at](size_t offset) { return LoadLittleEndian<uint64_t>(at(offset)); };
  const uint64_t hash = Hash64(bytes.first(kOwnHashAt));
  if (hash != get64(kOwnHashAt)) {
    return Status(StatusCode::kCorrupt, "footer: checksum mismatch, expected " +
                                            std::to_string(get64(kOwnHashAt)) + ", found " +
                                            std::to_string(hash));
  }
  Footer footer{.file_bytes = get64(kFileBytesAt),
                .data_begin = get64(kDataBeginAt),
                .tail_begin = get64(kTailBeginAt),
                .index_offset = get64(kIndexOffsetAt),
                .index_bytes = get64(kIndexBytesAt),
                .index_xxh3_64 = get64(kIndexHashAt),
                .header_xxh3_64 = get64(kHeaderHashAt),
                .version_major = LoadLittleEndian<uint16_t>(at(kMajorAt)),
                .version_minor = LoadLittleEndian<uint16_t>(at(kMinorAt)),
                .must_understand = get64(kMustUnderstandAt),
                .compatible = get64(kCompatibleAt)};
  if (footer.version_major != kVersionMajor) {
    return Status(StatusCode::kUnsupported,
                  "format version " + std::to_string(footer.version_major) + "." +
                      std::to_string(footer.version_minor) + " needs a dsckpt that reads major " +
                      std::to_string(footer.version_major) + "; this one reads " +
                      std::to_string(kVersionMajor));
  }
  if (const uint64_t unknown = footer.must_understand & ~kUnderstoodFeatures; unknown != 0) {
    std::string bits;
    for (int bit = 0; bit < 64; ++bit) {
      if ((unknown >> bit & 1) != 0) bits += (bits.empty() ? "" : ", ") + std::to_string(bit);
    }
    return Status(StatusCode::kUnsupported, "format feature bit " + bits +
                                                " must be understood to read this file: a newer "
                                                "dsckpt is needed");
  }
  if (const auto length = LoadLittleEndian<uint32_t>(at(kLengthAt)); length != kFooterBytes) {
    return Status(StatusCode::kCorrupt,
                  "footer: length is " + std::to_string(length) + ", expected 128");
  }
  for (size_t i = kReservedAt; i < kOwnHashAt; ++i) {
    if (bytes[i] != std::byte{0}) {
      return Status(StatusCode::kCorrupt,
                    "footer: reserved byte " + std::to_string(i) + " is not zero");
    }
  }
  return footer;
}

Status CheckGeometry(const Footer& f) {
  const auto corrupt = [](const char* field, uint64_t found, const std::string& expected) {
    return Status(StatusCode::kCorrupt, std::string("footer: ") + field + " is " +
                                            std::to_string(found) + ", expected " + expected);
  };
  if (f.file_bytes < kPageBytes + kFooterBytes || f.file_bytes > kMaxFileBytes) {
    return corrupt("the file size", f.file_bytes, "a size that can be");
  }
  const uint64_t footer_at = f.file_bytes - kFooterBytes;
  if (f.data_begin < kPageBytes || f.data_begin % kPageBytes != 0 ||
      f.data_begin > f.index_offset) {
    return corrupt("data_begin", f.data_begin, "a multiple of 4096 before the index");
  }
  if (f.data_begin > 8 + kMaxHeaderJsonBytes) {
    return corrupt("data_begin", f.data_begin, "at most the safetensors header limit");
  }
  if (f.tail_begin < f.data_begin || f.tail_begin > f.index_offset) {
    return corrupt("tail_begin", f.tail_begin,
                   std::to_string(f.data_begin) + " to " + std::to_string(f.index_offset));
  }
  if (f.index_offset % kLogAlignment != 0 || f.index_offset > footer_at) {
    return corrupt("index_offset", f.index_offset, "a multiple of 64 before the footer");
  }
  if (f.index_bytes != footer_at - f.index_offset) {
    return corrupt("index_bytes", f.index_bytes, std::to_string(footer_at - f.index_offset));
  }
  if (f.index_bytes == 0 || f.index_bytes % 8 != 0 || f.index_bytes > kMaxIndexBytes) {
    return corrupt("index_bytes", f.index_bytes,
                   "a multiple of 8 up to " + std::to_string(kMaxIndexBytes));
  }
  return {};
}

}  // namespace dsckpt::format
