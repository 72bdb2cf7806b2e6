#ifndef DSCKPT_FORMAT_HEADER_CHECK_H_
#define DSCKPT_FORMAT_HEADER_CHECK_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "format/header/header.h"

// The parts of ParseHeader() that look at all entries together.

namespace dsckpt::format {

/// A name for a message, cut when very long.
std::string Quoted(std::string_view name);

/// "safetensors header: `what`".
Status HeaderError(StatusCode code, const std::string& what);

/// What the grammar does not say: no name twice, each entry as long as its dtype and shape, entries
/// side by side from 0 to `data_bytes`. Sorts the entries by place.
Status CheckHeader(Header& header, uint64_t json_bytes, uint64_t data_bytes);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_HEADER_CHECK_H_
