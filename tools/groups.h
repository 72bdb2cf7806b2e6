#ifndef DSCKPT_TOOLS_GROUPS_H_
#define DSCKPT_TOOLS_GROUPS_H_

#include <string>
#include <string_view>

// Tensors that are looked at together.

namespace dsckpt::tools {

/// "layers.#.weight": every part of a name, between dots and slashes, that is a number.
std::string NamePattern(std::string_view name);

/// The group of a tensor by "tensor" (its name), "pattern", "layer" (the name up to its first
/// number; without one the whole name), "module" (the pattern without its last part), "dtype" or
/// "all".
std::string GroupOf(std::string_view by, std::string_view name, std::string_view dtype);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_GROUPS_H_
