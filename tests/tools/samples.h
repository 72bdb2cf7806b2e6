#ifndef DSCKPT_TESTS_TOOLS_SAMPLES_H_
#define DSCKPT_TESTS_TOOLS_SAMPLES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Files for the tools to work on.

/// A safetensors file: `header` as it is, its length in front, `data` after it.
std::string Safetensors(std::string_view header, std::string_view data);

/// Bytes 0, 1, 2, ... 255, 0, ...
std::string Counting(size_t bytes);

/// Writes a small shard with one of everything: tensors "model/embed" F32 [8,4] with the tied
/// "model/lm_head", "model/scale" BF16 [2,3], "model/zip" F32 [4096] of byte planes, an empty
/// "model/none" F32 [0,8]; objects "rng" and "text/note"; attributes; a tree with int keys, a tuple
/// and leaves.
void WriteSample(const std::string& path);

/// The 32-bit floats that "model/zip" holds.
std::vector<float> SampleFloats();

#endif  // DSCKPT_TESTS_TOOLS_SAMPLES_H_
