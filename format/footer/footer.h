#ifndef DSCKPT_FORMAT_FOOTER_FOOTER_H_
#define DSCKPT_FORMAT_FOOTER_FOOTER_H_

// The last 128 bytes of a shard, and what the two ends of any file say it is.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "dsckpt/limits.h"
#include "dsckpt/status.h"

namespace dsckpt::format {

inline constexpr uint16_t kVersionMajor = 1;
inline constexpr uint16_t kVersionMinor = 1;
/// Must-understand feature bits that this release understands: none are defined in v1.0.
inline constexpr uint64_t kUnderstoodFeatures = 0;
/// Last eight bytes of every shard. Not text, and damaged by newline conversion (as PNG's
/// signature).
inline constexpr std::array<unsigned char, 8> kFooterMagic = {0x89, 'D',  'S',  'C',
                                                              '\r', '\n', 0x1A, '\n'};

/// spec/format.md, "Footer".
struct Footer {
  uint64_t file_bytes = 0;
  uint64_t data_begin = 0;
  uint64_t tail_begin = 0;
  uint64_t index_offset = 0;
  uint64_t index_bytes = 0;
  uint64_t index_xxh3_64 = 0;
  uint64_t header_xxh3_64 = 0;  // over [0, data_begin)
  uint16_t version_major = kVersionMajor;
  uint16_t version_minor = kVersionMinor;
  uint64_t must_understand = 0;
  uint64_t compatible = 0;
};

std::array<std::byte, kFooterBytes> EncodeFooter(const Footer& footer);

/// True when `tail` ends with the footer magic.
bool HasFooterMagic(std::span<const std::byte> tail);

/// Decodes the last 128 bytes of a shard: checksum first, then version, feature bits and reserved
/// bytes. kCorrupt or kUnsupported.
Result<Footer> DecodeFooter(std::span<const std::byte, kFooterBytes> bytes);

/// Whether the regions that the footer names follow one another inside a file of the size that it
/// declares.
Status CheckGeometry(const Footer& footer);

/// What the two ends of a file say it is.
enum class FileKind { kShard, kSafetensors };

/// Decides what a file is, from its first bytes (at least min(size, 4096)) and its last min(size,
/// 128), and decodes the footer. Returns kSafetensors when there is neither header mark nor footer
/// magic and the first 8 bytes can be a safetensors header length. Errors as File::Open documents:
/// kNotCheckpoint naming the foreign kind (pickle, zip, GGUF, HDF5, empty, ...), kTruncated /
/// kTrailingBytes with expected and actual size, kCorrupt (one mark without the other, footer
/// checksum, geometry), kUnsupported (version, feature bits).
struct Classified {
  FileKind kind = FileKind::kSafetensors;
  Footer footer;  // kShard only
};
Result<Classified> Classify(std::span<const std::byte> head, std::span<const std::byte> tail,
                            uint64_t file_bytes);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_FOOTER_FOOTER_H_
