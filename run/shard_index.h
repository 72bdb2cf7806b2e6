#ifndef DSCKPT_RUN_SHARD_INDEX_H_
#define DSCKPT_RUN_SHARD_INDEX_H_

// How the footer and the index of a shard get from a file into memory: in one way for readers, who
// open it, and for writers, who look at what they have just written.

#include <cstddef>
#include <vector>

#include "dsckpt/status.h"
#include "format/columns/columns.h"
#include "format/footer/footer.h"
#include "io/aligned_buffer.h"
#include "io/input_file.h"

namespace dsckpt::run {

/// The first and the last bytes of a file, as many of each as format::Classify() wants.
struct FileEnds {
  std::vector<std::byte> head, tail;
};
Result<FileEnds> ReadEnds(const io::InputFile& input);

/// The bytes of the index of a shard, unchecked.
Result<io::AlignedBuffer> ReadIndexBytes(const io::InputFile& input, const format::Footer& footer);

/// The index of a shard, its checksum and its columns checked.
struct ShardIndex {
  io::AlignedBuffer memory;
  format::IndexView view;  ///< Borrows from `memory`.
};
/// Errors: those of reading; kCorrupt; kUnsupported (an unknown hash id).
Result<ShardIndex> ReadShardIndex(const io::InputFile& input, const format::Footer& footer);

}  // namespace dsckpt::run

#endif  // DSCKPT_RUN_SHARD_INDEX_H_
