#include "reader/chunk/stored_item.h"

#include "format/names.h"

namespace dsckpt::reader {

namespace {

/// A zstd frame takes at least 4 bytes for each block of 128 KiB (RFC 8878, section 3.1.1.2).
constexpr uint64_t kMaxZstdRatio = 128 * kKiB / 4;

StoredItem PayloadItem(const format::PayloadView& payload, uint32_t i) {
  StoredItem item;
  item.offset = payload.offset[i];
  item.raw_bytes = payload.raw_bytes[i];
  item.stored_bytes = payload.stored_bytes[i];
  item.encoding = static_cast<Encoding>(payload.encoding[i]);
  return item;
}

}  // namespace

std::string StoredItem::Title() const {
  std::string title(kind);
  return title.append(" '").append(Printable(name)).append("'");
}

StoredItem TensorItem(const format::IndexView& index, uint32_t tensor) {
  StoredItem item = PayloadItem(index.tensors, tensor);
  item.kind = "tensor";
  item.name = index.tensor_names[tensor];
  item.element_bytes = index.dtypes[index.tensor_dtype[tensor]].block_bytes;
  item.sums = format::TensorSums(index, tensor);
  item.stored = format::TensorStoredChunks(index, tensor);
  return item;
}

StoredItem ObjectItem(const format::IndexView& index, uint32_t object) {
  StoredItem item = PayloadItem(index.objects, object);
  item.kind = "object";
  item.name = index.object_names[object];
  item.sums = format::ObjectSums(index, object);
  item.stored = format::ObjectStoredChunks(index, object);
  return item;
}

Status CheckDecodable(const StoredItem& item) {
  if (item.encoding > Encoding::kBytePlaneZstd) {
    return Status(StatusCode::kUnsupported,
                  item.Title() + " has encoding " +
                      std::to_string(static_cast<int>(item.encoding)) +
                      ", which this release does not know: read it with a newer dsckpt");
  }
  if (item.encoded() && item.raw_bytes / kMaxZstdRatio > item.stored_bytes) {
    return Status(StatusCode::kCorrupt, item.Title() + ": " + std::to_string(item.stored_bytes) +
                                            " stored bytes cannot hold " +
                                            std::to_string(item.raw_bytes) + " encoded ones")
        .WithOffset(item.offset);
  }
  return Status();
}

Status ChecksumError(const StoredItem& item, uint64_t chunk, uint64_t offset,
                     const std::string& expected, const std::string& found) {
  return Status(StatusCode::kCorrupt,
                item.Title() + ": the checksum of chunk " + std::to_string(chunk) + " at offset " +
                    std::to_string(offset) + " should be " + expected + " but is " + found +
                    ": the file is damaged; use another copy ('dsckpt verify' lists all "
                    "damage)")
      .WithOffset(offset);
}

}  // namespace dsckpt::reader
