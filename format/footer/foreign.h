#ifndef DSCKPT_FORMAT_FOOTER_FOREIGN_H_
#define DSCKPT_FORMAT_FOOTER_FOREIGN_H_

// Tells by name what a file is that is no checkpoint: pickle, zip, GGUF, HDF5.

#include <cstddef>
#include <span>
#include <string_view>

namespace dsckpt::format {

/// What a file that is no checkpoint is, from its first bytes: "a zip archive, ..."; empty when
/// unknown.
std::string_view ForeignKind(std::span<const std::byte> head);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_FOOTER_FOREIGN_H_
