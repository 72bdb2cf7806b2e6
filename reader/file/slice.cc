// File::ReadSlice: reads a box of one tensor.

#include "reader/chunk/box.h"
#include "reader/chunk/reader.h"
#include "reader/file/file_impl.h"

namespace dsckpt {

namespace {

/// The chunks that hold any of the box.
reader::ChunkPlan PlanBox(const reader::StoredItem& item, const reader::BoxRuns& runs) {
  reader::ChunkPlan plan;
  uint64_t offset = item.offset;
  const auto count = static_cast<uint32_t>(item.chunk_count());
  for (uint32_t chunk = 0; chunk < count; ++chunk) {
    const uint64_t begin = chunk * kChunkBytes;
    const uint64_t length = item.stored_length(chunk);
    if (runs.Overlaps(begin, begin + item.raw_length(chunk))) {
      plan.spans.push_back({offset, length});
      plan.chunks.push_back({0, chunk});
    }
    offset += length;
  }
  return plan;
}

Status ReadBox(const File::Impl& impl, const reader::StoredItem& item, const reader::BoxRuns& runs,
               std::span<std::byte> out) {
  reader::ScratchPool scratch;
  return reader::ReadChunks(*impl.input, PlanBox(item, runs), impl.threads,
                            [&](reader::ChunkRef ref, std::span<const std::byte> stored) {
                              reader::ScratchPool::Lease lease(scratch);
                              DSCKPT_ASSIGN_OR_RETURN(
                                  const auto raw,
                                  reader::RawChunk(item, ref.chunk, stored, true, *lease));
                              runs.Copy(raw, ref.chunk * kChunkBytes, out);
                              return Status();
                            });
}

Status Slice(const File::Impl& impl, uint32_t tensor, std::span<const Range> box,
             std::span<std::byte> out) {
  DSCKPT_ASSIGN_OR_RETURN(const reader::StoredItem item, impl.ReadableTensor(tensor));
  const TensorInfo info = impl.Info(tensor);
  auto runs = reader::BoxRuns::Make(info.dtype, info.shape, box);
  if (!runs.ok()) {
    return Status(runs.status().code(), item.Title() + ": " + runs.status().message());
  }
  if (out.size() != runs->total_bytes()) {
    return Status(StatusCode::kInvalidArgument,
                  item.Title() + ": the box takes " + std::to_string(runs->total_bytes()) +
                      " bytes, but the destination has " + std::to_string(out.size()));
  }
  if (impl.mapping && !item.encoded()) {
    runs->Copy(impl.mapping->bytes().subspan(item.offset, item.raw_bytes), 0, out);
    return Status();
  }
  return ReadBox(impl, item, *runs, out);
}

}  // namespace

Status File::ReadSlice(std::string_view name, std::span<const Range> box,
                       std::span<std::byte> out) const {
  DSCKPT_ASSIGN_OR_RETURN(const uint32_t tensor, impl_->TensorOrdinal(name));
  return reader::InFile(Slice(*impl_, tensor, box, out), *impl_->input);
}

}  // namespace dsckpt
