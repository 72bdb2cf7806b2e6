#ifndef DSCKPT_WRITER_ENGINE_PLACED_IMAGE_H_
#define DSCKPT_WRITER_ENGINE_PLACED_IMAGE_H_

// The part of a file whose bytes are placed before any data moves, and the header before it.

#include <cstddef>
#include <cstdint>
#include <span>

#include "dsckpt/limits.h"
#include "state/file_layout.h"

namespace dsckpt {

/// File offset of window 0 of the placed image: the page in which the data begins. The header of a
/// shard ends at a page. That of plain safetensors may end inside this page, which is written once:
/// the end of the header is then a part of the image, and commit writes what comes before.
inline uint64_t PlacedImageBegin(const FileLayout& layout) {
  return layout.data_begin / kPageBytes * kPageBytes;
}
/// File offset where the placed image ends.
inline uint64_t PlacedImageEnd(const FileLayout& layout) {
  return layout.shard ? layout.appended_begin : layout.placed_end;
}

/// The part of a header that lies before the placed image, and is written last.
inline std::span<const std::byte> HeaderBeforeImage(const FileLayout& layout) {
  return std::as_bytes(std::span(layout.header.region)).first(PlacedImageBegin(layout));
}
/// The part of a header that lies in the placed image; empty for a shard.
inline std::span<const std::byte> HeaderInImage(const FileLayout& layout) {
  return std::as_bytes(std::span(layout.header.region)).subspan(PlacedImageBegin(layout));
}

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_ENGINE_PLACED_IMAGE_H_
