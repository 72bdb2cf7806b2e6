#ifndef DSCKPT_TOOLS_SAVE_H_
#define DSCKPT_TOOLS_SAVE_H_

#include <cstdint>
#include <string>

#include "dsckpt/engine.h"
#include "dsckpt/provider.h"
#include "dsckpt/status.h"
#include "tools/terminal/command_line.h"

// What commands with an output file have in common.

namespace dsckpt::tools {

class Console;

struct OutputOptions {
  std::string input;
  std::string output;
  bool force = false;
};

/// -o and --force.
void AddOutput(CommandLine& line, OutputOptions& options, const char* output_help);
/// FILE, -o and --force.
void AddOutputOptions(CommandLine& line, OutputOptions& options, const char* input_help);

/// Refuses an output that is the input under any name (also with --force), that is no regular file,
/// or that exists without --force. Call before anything expensive.
Status CheckOutput(const OutputOptions& options);

/// Saves tensors of `bytes` raw bytes with a progress bar. An interrupt cancels it: nothing is left
/// behind, and the status is kCancelled.
Status SaveWithProgress(Console& console, const std::string& output, const StateProvider& provider,
                        const SaveOptions& options, uint64_t bytes);

/// Reports a failed save or load: the exit code, 128 plus the signal after an interrupt. REQUIRES:
/// an InterruptGuard lives, !status.ok().
int FailOutput(Console& console, const OutputOptions& options, const Status& status);

/// Size of a file just written; 0 when it is gone already.
uint64_t FileBytes(const std::string& path);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_SAVE_H_
