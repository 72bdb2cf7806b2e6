#ifndef DSCKPT_FORMAT_FOOTER_DECODE_H_
#define DSCKPT_FORMAT_FOOTER_DECODE_H_

#include <cstddef>
#include <span>

#include "format/footer/footer.h"

// Parts of Classify().

namespace dsckpt::format {

/// True when `tail` ends with the footer magic.
bool HasFooterMagic(std::span<const std::byte> tail);

/// Decodes the last 128 bytes of a shard: checksum first, then version, feature bits and reserved
/// bytes. kCorrupt or kUnsupported.
Result<Footer> DecodeFooter(std::span<const std::byte, kFooterBytes> bytes);

/// Whether the regions that the footer names follow one another inside a file of the size that it
/// declares.
Status CheckGeometry(const Footer& footer);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_FOOTER_DECODE_H_
