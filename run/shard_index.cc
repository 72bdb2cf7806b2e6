#include "run/shard_index.h"

#include <algorithm>

#include "base/text.h"
#include "dsckpt/limits.h"
#include "format/checksum.h"
#include "format/index/index.h"

namespace dsckpt::run {

Result<FileEnds> ReadEnds(const io::InputFile& input) {
  const uint64_t size = input.size();
  FileEnds ends;
  ends.head.resize(std::min(size, kPageBytes));
  ends.tail.resize(std::min(size, kFooterBytes));
  DSCKPT_RETURN_IF_ERROR(input.ReadAt(0, ends.head));
  DSCKPT_RETURN_IF_ERROR(input.ReadAt(size - ends.tail.size(), ends.tail));
  return ends;
}

Result<io::AlignedBuffer> ReadIndexBytes(const io::InputFile& input, const format::Footer& footer) {
  DSCKPT_ASSIGN_OR_RETURN(io::AlignedBuffer buffer,
                          io::AlignedBuffer::Allocate(footer.index_bytes, kLogAlignment));
  DSCKPT_RETURN_IF_ERROR(input.ReadAt(footer.index_offset, buffer.bytes()));
  return buffer;
}

Result<ShardIndex> ReadShardIndex(const io::InputFile& input, const format::Footer& footer) {
  ShardIndex index;
  DSCKPT_ASSIGN_OR_RETURN(index.memory, ReadIndexBytes(input, footer));
  // Hashed before it is parsed: the parser then meets no accidental damage.
  if (const uint64_t hash = format::Hash64(index.memory.bytes()); hash != footer.index_xxh3_64) {
    return Status(StatusCode::kCorrupt, "the index checksum should be " +
                                            Hex64(footer.index_xxh3_64) + " but is " + Hex64(hash) +
                                            ": the file is damaged; use another copy")
        .WithOffset(footer.index_offset);
  }
  const format::Geometry geometry{footer.data_begin, footer.tail_begin, footer.index_offset};
  DSCKPT_ASSIGN_OR_RETURN(index.view, format::ParseIndex(index.memory.bytes(), geometry));
  return index;
}

}  // namespace dsckpt::run
