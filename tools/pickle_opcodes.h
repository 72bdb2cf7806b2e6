#ifndef DSCKPT_TOOLS_PICKLE_OPCODES_H_
#define DSCKPT_TOOLS_PICKLE_OPCODES_H_

#include <cstddef>
#include <span>

#include "dsckpt/status.h"

namespace dsckpt::tools {

class Console;

/// One line an opcode: offset, name, argument. Nothing of the pickle is run. kCorrupt: an opcode
/// that no protocol up to 5 has, or bytes that end within one.
Status PrintPickleOpcodes(Console& console, std::span<const std::byte> bytes);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_PICKLE_OPCODES_H_
