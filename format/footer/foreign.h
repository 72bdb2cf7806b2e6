#ifndef DSCKPT_FORMAT_FOOTER_FOREIGN_H_
#define DSCKPT_FORMAT_FOOTER_FOREIGN_H_

// Names for files that are no checkpoints: pickle, zip, GGUF, HDF5.

#include <cstddef>
#include <span>
#include <string_view>

namespace dsckpt::format {

/// What a file that is no checkpoint is, from its first bytes: "a zip archive, ..."; empty when
/// unknown.
std::string_view ForeignKind(std::span<const std::byte> head);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_FOOTER_FOREIGN_H_
