// File::View and File::ReadObject: tensors without a copy where that is possible, objects.

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "dsckpt/limits.h"
#include "reader/chunk/reader.h"
#include "reader/file/file_impl.h"

namespace dsckpt {

namespace {

constexpr uint64_t LowestBit(uint64_t value) { return value & (~value + 1); }

/// No C++ element type needs more than eight: complex types align as their halves.
uint64_t ElementAlignment(const DTypeInfo& dtype) {
  return std::min<uint64_t>(LowestBit(dtype.block_bytes), 8);
}

/// The alignment that raw tensors have in a shard, and at least a cache line.
uint64_t BufferAlignment(uint64_t bytes) {
  return std::max(LowestBit(bytes | kPageBytes), kLogAlignment);
}

struct OwnedElements {
  std::shared_ptr<const File::Impl> file;  // The tensor's name and shape lie in its index.
  io::AlignedBuffer buffer;
};

Result<Tensor> ReadTensor(std::shared_ptr<const File::Impl> file, const TensorInfo& info,
                          const reader::StoredItem& item) {
  auto owned = std::make_shared<OwnedElements>();
  DSCKPT_ASSIGN_OR_RETURN(
      owned->buffer, io::AlignedBuffer::Allocate(item.raw_bytes, BufferAlignment(item.raw_bytes)));
  const std::span<std::byte> bytes = owned->buffer.bytes();
  DSCKPT_RETURN_IF_ERROR(
      reader::InFile(reader::ReadItem(*file->input, item, bytes, file->threads), *file->input));
  owned->file = std::move(file);
  return Tensor(info, bytes, false, std::move(owned));
}

}  // namespace

Status File::Impl::ReadByChunks(
    const reader::StoredItem& item,
    const std::function<Status(std::span<const std::byte>)>& consume) const {
  DSCKPT_RETURN_IF_ERROR(reader::InFile(reader::CheckDecodable(item), *input));
  std::vector<std::byte> stored;
  reader::Scratch scratch;
  uint64_t offset = item.offset;
  for (uint64_t chunk = 0; chunk < item.chunk_count(); ++chunk) {
    stored.resize(item.stored_length(chunk));
    DSCKPT_RETURN_IF_ERROR(input->ReadAt(offset, stored));
    const auto raw = reader::RawChunk(item, chunk, stored, true, scratch);
    if (!raw.ok()) return reader::InFile(raw.status(), *input);
    DSCKPT_RETURN_IF_ERROR(consume(*raw));
    offset += stored.size();
  }
  return Status();
}

std::optional<Tensor> File::MappedView(const TensorInfo& tensor) const {
  // Plain safetensors may place elements at any offset; the mapping itself is page-aligned.
  if (impl_->mapping == nullptr || tensor.encoding != Encoding::kRaw ||
      tensor.offset % ElementAlignment(tensor.dtype) != 0) {
    return std::nullopt;
  }
  const auto bytes = impl_->mapping->bytes().subspan(tensor.offset, tensor.raw_bytes);
  return Tensor(tensor, bytes, true, impl_);
}

Result<Tensor> File::View(std::string_view name) const {
  DSCKPT_ASSIGN_OR_RETURN(const uint32_t tensor, impl_->TensorOrdinal(name));
  DSCKPT_ASSIGN_OR_RETURN(const reader::StoredItem item, impl_->ReadableTensor(tensor));
  const TensorInfo info = impl_->Info(tensor);
  if (auto mapped = MappedView(info)) return *std::move(mapped);
  return ReadTensor(impl_, info, item);
}

Result<std::vector<std::byte>> File::ReadObject(std::string_view name) const {
  DSCKPT_ASSIGN_OR_RETURN(const uint32_t object, impl_->ObjectOrdinal(name));
  const reader::StoredItem item = reader::ObjectItem(impl_->index, object);
  DSCKPT_RETURN_IF_ERROR(reader::InFile(reader::CheckDecodable(item), *impl_->input));
  std::vector<std::byte> bytes;
  try {
    bytes.resize(item.raw_bytes);
  } catch (const std::exception&) {  // bad_alloc or length_error
    return Status(StatusCode::kOutOfMemory, item.Title() + ": no memory for its " +
                                                std::to_string(item.raw_bytes) + " bytes");
  }
  DSCKPT_RETURN_IF_ERROR(
      reader::InFile(reader::ReadItem(*impl_->input, item, bytes, impl_->threads), *impl_->input));
  return bytes;
}

Status File::ReadObject(std::string_view name, Sink& sink) const {
  DSCKPT_ASSIGN_OR_RETURN(const uint32_t object, impl_->ObjectOrdinal(name));
  return impl_->ReadByChunks(reader::ObjectItem(impl_->index, object),
                             [&](std::span<const std::byte> raw) { return sink.Write(raw); });
}

}  // namespace dsckpt
