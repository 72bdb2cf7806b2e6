#ifndef DSCKPT_TOOLS_NUMPY_H_
#define DSCKPT_TOOLS_NUMPY_H_

#include <cstdint>
#include <string>
#include <vector>

// The files that numpy.load() reads.

namespace dsckpt::tools {

/// What stands before the elements: a magic, a version, the length of a dict, and the dict, padded
/// so that the elements begin at a multiple of 64. `descr`: the dtype, "<f8".
std::string NumpyHeader(const std::string& descr, const std::vector<int64_t>& shape);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_NUMPY_H_
