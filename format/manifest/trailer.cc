#include "format/manifest/trailer.h"

#include <cstring>
#include <string>
#include <string_view>

#include "base/little_endian.h"
#include "dsckpt/limits.h"
#include "format/checksum.h"

namespace dsckpt::format {
namespace {

// Field offsets (spec/format.md, "Manifest").
constexpr size_t kFileBytesAt = 0;
constexpr size_t kBufferBytesAt = 8;
constexpr size_t kMajorAt = 16;
constexpr size_t kMinorAt = 18;
constexpr size_t kLengthAt = 20;
constexpr size_t kMustUnderstandAt = 24;
constexpr size_t kReservedAt = 40;
constexpr size_t kHashAt = 48;
constexpr size_t kMagicAt = 56;

constexpr uint16_t kManifestMajor = 1;
constexpr std::string_view kMagic = "DSCKMANI";
// Where and what a FlatBuffer of the schema begins with.
constexpr size_t kIdentifierAt = 4;
constexpr std::string_view kIdentifier = "DSCM";

bool HasText(std::span<const std::byte> bytes, size_t at, std::string_view text) {
  return bytes.size() >= at + text.size() &&
         std::memcmp(bytes.data() + at, text.data(), text.size()) == 0;
}

Status Corrupt(const std::string& field, uint64_t expected, uint64_t found) {
  return Status(StatusCode::kCorrupt, "manifest trailer: " + field + ": expected " +
                                          std::to_string(expected) + ", found " +
                                          std::to_string(found));
}

// What has no trailer: the beginning of a manifest, or something else.
Status NoTrailer(std::span<const std::byte> begin, uint64_t file_bytes) {
  if (HasText(begin, kIdentifierAt, kIdentifier)) {
    return Status(StatusCode::kTruncated, "manifest: the trailer is missing at the end of " +
                                              std::to_string(file_bytes) +
                                              " bytes: the file is cut off or was appended to");
  }
  return Status(StatusCode::kNotCheckpoint, "not a manifest: " + std::to_string(file_bytes) +
                                                " bytes that neither begin nor end like one");
}

Status CheckVersion(std::span<const std::byte> trailer) {
  const auto major = LoadLittleEndian<uint16_t>(trailer.data() + kMajorAt);
  const auto minor = LoadLittleEndian<uint16_t>(trailer.data() + kMinorAt);
  if (major != kManifestMajor) {
    return Status(StatusCode::kUnsupported, "manifest version " + std::to_string(major) + "." +
                                                std::to_string(minor) +
                                                " needs another dsckpt; this one reads major " +
                                                std::to_string(kManifestMajor));
  }
  const auto bits = LoadLittleEndian<uint64_t>(trailer.data() + kMustUnderstandAt);
  if (const uint64_t unknown = bits & ~kManifestHasParts; unknown != 0) {
    return Status(StatusCode::kUnsupported,
                  "manifest feature bits " + std::to_string(unknown) +
                      " must be understood to read it: a newer dsckpt is needed");
  }
  return {};
}

}  // namespace

void AppendManifestTrailer(std::vector<std::byte>& bytes, const ManifestVersion& version) {
  bytes.resize((bytes.size() + 7) / 8 * 8);
  const uint64_t buffer_bytes = bytes.size();
  bytes.resize(buffer_bytes + kManifestTrailerBytes);
  std::byte* trailer = bytes.data() + buffer_bytes;
  StoreLittleEndian(trailer + kFileBytesAt, uint64_t{bytes.size()});
  StoreLittleEndian(trailer + kBufferBytesAt, buffer_bytes);
  StoreLittleEndian(trailer + kMajorAt, kManifestMajor);
  StoreLittleEndian(trailer + kMinorAt, version.minor);
  StoreLittleEndian(trailer + kLengthAt, static_cast<uint32_t>(kManifestTrailerBytes));
  StoreLittleEndian(trailer + kMustUnderstandAt, version.must_understand);
  StoreLittleEndian(trailer + kHashAt, Hash64(std::span(bytes).first(buffer_bytes + kHashAt)));
  std::memcpy(trailer + kMagicAt, kMagic.data(), kMagic.size());
}

uint64_t ManifestSum(std::span<const std::byte> bytes) {
  return LoadLittleEndian<uint64_t>(bytes.last(kManifestTrailerBytes).data() + kHashAt);
}

Status CheckManifestEnds(std::span<const std::byte> begin, std::span<const std::byte> end,
                         uint64_t file_bytes) {
  if (file_bytes > kMaxManifestBytes) {
    return Status(StatusCode::kCorrupt, "manifest: expected at most " +
                                            std::to_string(kMaxManifestBytes) + " bytes, found " +
                                            std::to_string(file_bytes));
  }
  if (end.size() < kManifestTrailerBytes ||
      !HasText(end, end.size() - kManifestTrailerBytes + kMagicAt, kMagic)) {
    return NoTrailer(begin, file_bytes);
  }
  const auto declared =
      LoadLittleEndian<uint64_t>(end.last(kManifestTrailerBytes).data() + kFileBytesAt);
  if (declared == file_bytes) return {};
  return Status(file_bytes < declared ? StatusCode::kTruncated : StatusCode::kCorrupt,
                "manifest trailer: file bytes: expected " + std::to_string(file_bytes) +
                    ", found " + std::to_string(declared));
}

Result<ManifestBody> CheckManifestTrailer(std::span<const std::byte> bytes) {
  DSCKPT_RETURN_IF_ERROR(CheckManifestEnds(bytes, bytes, bytes.size()));
  const uint64_t buffer_bytes = bytes.size() - kManifestTrailerBytes;
  const auto trailer = bytes.subspan(buffer_bytes);
  const auto get64 = [&](size_t at) { return LoadLittleEndian<uint64_t>(trailer.data() + at); };
  if (const uint64_t hash = Hash64(bytes.first(buffer_bytes + kHashAt)); hash != get64(kHashAt)) {
    return Corrupt("checksum", get64(kHashAt), hash);
  }
  DSCKPT_RETURN_IF_ERROR(CheckVersion(trailer));
  if (const auto length = LoadLittleEndian<uint32_t>(trailer.data() + kLengthAt);
      length != kManifestTrailerBytes) {
    return Corrupt("length", kManifestTrailerBytes, length);
  }
  if (get64(kBufferBytesAt) != buffer_bytes || buffer_bytes % 8 != 0) {
    return Corrupt("FlatBuffer bytes", buffer_bytes / 8 * 8, get64(kBufferBytesAt));
  }
  if (get64(kReservedAt) != 0) return Corrupt("reserved bytes", 0, get64(kReservedAt));
  return ManifestBody{bytes.first(buffer_bytes), get64(kMustUnderstandAt)};
}

}  // namespace dsckpt::format
