#include "format/codec.h"

#include <zstd.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/little_endian.h"
#include "dsckpt/limits.h"

namespace dsckpt {

const char* EncodingName(Encoding encoding) {
  switch (encoding) {
    case Encoding::kRaw:
      return "raw";
    case Encoding::kZstd:
      return "zstd";
    case Encoding::kBytePlaneZstd:
      return "byteplane-zstd";
  }
  return "unknown";
}

namespace format {
namespace {

constexpr int kZstdLevel = 1;

// A width that the compiler knows is unrolled; `kWidth` 0 takes it at run time.
template <size_t kWidth>
void SplitPlanes(const std::byte* raw, std::byte* planes, size_t elements, size_t any_width) {
  const size_t width = kWidth != 0 ? kWidth : any_width;
  for (size_t i = 0; i < elements; ++i) {
    for (size_t j = 0; j < width; ++j) planes[j * elements + i] = raw[i * width + j];
  }
}

template <size_t kWidth>
void JoinPlanes(const std::byte* planes, std::byte* raw, size_t elements, size_t any_width) {
  const size_t width = kWidth != 0 ? kWidth : any_width;
  for (size_t i = 0; i < elements; ++i) {
    for (size_t j = 0; j < width; ++j) raw[i * width + j] = planes[j * elements + i];
  }
}

void Split(const std::byte* raw, std::byte* planes, size_t bytes, size_t width) {
  switch (width) {
    case 2:
      return SplitPlanes<2>(raw, planes, bytes / width, width);
    case 4:
      return SplitPlanes<4>(raw, planes, bytes / width, width);
    case 8:
      return SplitPlanes<8>(raw, planes, bytes / width, width);
    default:
      return SplitPlanes<0>(raw, planes, bytes / width, width);
  }
}

void Join(const std::byte* planes, std::byte* raw, size_t bytes, size_t width) {
  switch (width) {
    case 2:
      return JoinPlanes<2>(planes, raw, bytes / width, width);
    case 4:
      return JoinPlanes<4>(planes, raw, bytes / width, width);
    case 8:
      return JoinPlanes<8>(planes, raw, bytes / width, width);
    default:
      return JoinPlanes<0>(planes, raw, bytes / width, width);
  }
}

// One plane is the identity.
bool HasPlanes(Encoding encoding, uint32_t element_bytes) {
  return encoding == Encoding::kBytePlaneZstd && element_bytes != 1;
}

bool IsKnown(Encoding encoding) { return encoding <= Encoding::kBytePlaneZstd; }

Status UnknownEncoding(Encoding encoding) {
  return Status(StatusCode::kUnsupported,
                "encoding " + std::to_string(static_cast<int>(encoding)) +
                    " is not known to this release; a newer dsckpt is needed");
}

Status CheckArguments(Encoding encoding, uint32_t element_bytes, size_t raw_bytes,
                      StatusCode code) {
  if (!IsKnown(encoding)) return UnknownEncoding(encoding);
  if (raw_bytes > kChunkBytes) {
    return Status(code, "a chunk of " + std::to_string(raw_bytes) + " bytes; the limit is " +
                            std::to_string(kChunkBytes));
  }
  if (encoding == Encoding::kBytePlaneZstd &&
      (element_bytes == 0 || raw_bytes % element_bytes != 0)) {
    return Status(code, "byte planes: elements of " + std::to_string(element_bytes) +
                            " bytes do not divide a chunk of " + std::to_string(raw_bytes));
  }
  return {};
}

// RFC 8878, section 3.1.1.1: a window of its own, or as much as the content.
uint64_t WindowBytes(std::span<const std::byte> frame, size_t content_bytes) {
  const auto at = [&](size_t i) { return std::to_integer<uint64_t>(frame[i]); };
  const bool single_segment = (at(4) >> 5 & 1) != 0;
  if (single_segment) return content_bytes;
  const uint64_t base = uint64_t{1} << (10 + (at(5) >> 3));
  return base + base / 8 * (at(5) & 7);
}

Status CheckFrame(std::span<const std::byte> stored, size_t raw_bytes) {
  const auto corrupt = [](const std::string& what) {
    return Status(StatusCode::kCorrupt, "encoded chunk: " + what);
  };
  // Compared here because libzstd may also accept skippable and legacy frames.
  if (stored.size() < 4 || LoadLittleEndian<uint32_t>(stored.data()) != ZSTD_MAGICNUMBER) {
    return corrupt("does not begin with a zstd frame");
  }
  const unsigned long long content = ZSTD_getFrameContentSize(stored.data(), stored.size());
  if (content == ZSTD_CONTENTSIZE_ERROR || content == ZSTD_CONTENTSIZE_UNKNOWN) {
    return corrupt("the zstd frame does not declare its content size");
  }
  if (content != raw_bytes) {
    return corrupt("the zstd frame declares " + std::to_string(content) + " bytes, expected " +
                   std::to_string(raw_bytes));
  }
  if (ZSTD_getDictID_fromFrame(stored.data(), stored.size()) != 0) {
    return corrupt("the zstd frame needs a dictionary");
  }
  if (const uint64_t window = WindowBytes(stored, raw_bytes); window > kMaxZstdWindowBytes) {
    return corrupt("the zstd frame has a window of " + std::to_string(window) + " bytes, above " +
                   std::to_string(kMaxZstdWindowBytes));
  }
  const size_t frame = ZSTD_findFrameCompressedSize(stored.data(), stored.size());
  if (ZSTD_isError(frame)) {
    return corrupt(std::string("zstd: ") + ZSTD_getErrorName(frame));
  }
  if (frame != stored.size()) {
    return corrupt("the zstd frame takes " + std::to_string(frame) + " bytes of " +
                   std::to_string(stored.size()) + " stored");
  }
  return {};
}

}  // namespace

struct ChunkEncoder::Impl {
  ZSTD_CCtx* context = nullptr;
  std::vector<std::byte> planes;
  std::vector<std::byte> frame;
  ~Impl() { ZSTD_freeCCtx(context); }

  Status Prepare() {
    if (context != nullptr) return {};
    context = ZSTD_createCCtx();
    if (context == nullptr) return Status(StatusCode::kOutOfMemory, "no memory for zstd");
    // The defaults are what the format wants: content size on, checksum and dictionary off.
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, kZstdLevel);
    return {};
  }
};

ChunkEncoder::ChunkEncoder() : impl_(std::make_unique<Impl>()) {}
ChunkEncoder::~ChunkEncoder() = default;

Result<std::span<const std::byte>> ChunkEncoder::Encode(Encoding encoding, uint32_t element_bytes,
                                                        std::span<const std::byte> raw) {
  DSCKPT_RETURN_IF_ERROR(
      CheckArguments(encoding, element_bytes, raw.size(), StatusCode::kInvalidArgument));
  if (encoding == Encoding::kRaw || raw.empty()) return raw;
  DSCKPT_RETURN_IF_ERROR(impl_->Prepare());
  std::span<const std::byte> input = raw;
  if (HasPlanes(encoding, element_bytes)) {
    impl_->planes.resize(raw.size());
    Split(raw.data(), impl_->planes.data(), raw.size(), element_bytes);
    input = impl_->planes;
  }
  // All the room that zstd may want, so that the frame does not depend on how much there is.
  impl_->frame.resize(ZSTD_compressBound(raw.size()));
  const size_t bytes = ZSTD_compress2(impl_->context, impl_->frame.data(), impl_->frame.size(),
                                      input.data(), input.size());
  if (ZSTD_isError(bytes)) {
    return Status(StatusCode::kInternal, std::string("zstd: ") + ZSTD_getErrorName(bytes));
  }
  if (bytes >= raw.size()) return raw;
  return std::span<const std::byte>(impl_->frame).first(bytes);
}

struct ChunkDecoder::Impl {
  ZSTD_DCtx* context = nullptr;
  std::vector<std::byte> planes;
  ~Impl() { ZSTD_freeDCtx(context); }

  Status Decompress(std::span<const std::byte> stored, std::span<std::byte> out) {
    if (context == nullptr) context = ZSTD_createDCtx();
    if (context == nullptr) return Status(StatusCode::kOutOfMemory, "no memory for zstd");
    const size_t bytes =
        ZSTD_decompressDCtx(context, out.data(), out.size(), stored.data(), stored.size());
    if (ZSTD_isError(bytes)) {
      return Status(StatusCode::kCorrupt,
                    std::string("encoded chunk: zstd: ") + ZSTD_getErrorName(bytes));
    }
    if (bytes != out.size()) {
      return Status(StatusCode::kCorrupt, "encoded chunk: decoded to " + std::to_string(bytes) +
                                              " bytes, expected " + std::to_string(out.size()));
    }
    return {};
  }
};

ChunkDecoder::ChunkDecoder() : impl_(std::make_unique<Impl>()) {}
ChunkDecoder::~ChunkDecoder() = default;

Status ChunkDecoder::Decode(Encoding encoding, uint32_t element_bytes,
                            std::span<const std::byte> stored, std::span<std::byte> raw) {
  DSCKPT_RETURN_IF_ERROR(CheckArguments(encoding, element_bytes, raw.size(), StatusCode::kCorrupt));
  if (stored.size() == raw.size()) {
    if (!raw.empty()) std::memcpy(raw.data(), stored.data(), raw.size());
    return {};
  }
  if (encoding == Encoding::kRaw || stored.size() > raw.size()) {
    return Status(StatusCode::kCorrupt, "a chunk of " + std::to_string(raw.size()) +
                                            " bytes is stored in " + std::to_string(stored.size()));
  }
  DSCKPT_RETURN_IF_ERROR(CheckFrame(stored, raw.size()));
  if (!HasPlanes(encoding, element_bytes)) return impl_->Decompress(stored, raw);
  impl_->planes.resize(raw.size());
  DSCKPT_RETURN_IF_ERROR(impl_->Decompress(stored, impl_->planes));
  Join(impl_->planes.data(), raw.data(), raw.size(), element_bytes);
  return {};
}

}  // namespace format
}  // namespace dsckpt
