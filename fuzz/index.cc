// Parses an index: the one inside a shard, or the input itself.

#include "format/index/index.h"

#include <cstring>
#include <vector>

#include "format/footer/footer.h"
#include "fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dsckpt;
  std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  format::Geometry geometry{4096, 8192, 16384};
  const auto head = bytes.first(std::min<size_t>(size, 4096));
  const auto tail = bytes.last(std::min<size_t>(size, kFooterBytes));
  const auto classified = format::Classify(head, tail, size);
  if (classified.ok() && classified->kind == format::FileKind::kShard) {
    const auto& footer = classified->footer;
    geometry = {footer.data_begin, footer.tail_begin, footer.index_offset};
    bytes = bytes.subspan(footer.index_offset, footer.index_bytes);
  }
  std::vector<uint64_t> aligned(bytes.size() / 8 + 1);
  if (!bytes.empty()) std::memcpy(aligned.data(), bytes.data(), bytes.size());
  const auto index =
      format::ParseIndex(std::as_bytes(std::span(aligned)).first(bytes.size()), geometry);
  if (index.ok()) {
    // Whatever passes must be safe to walk.
    for (uint32_t i = 0; i < index->tensor_names.size(); ++i) {
      static_cast<void>(index->tensor_names.Find(index->tensor_names[i]));
      static_cast<void>(format::TensorDigest(1, index->shape(i), format::TensorSums(*index, i)));
    }
    for (uint32_t i = 0; i < index->pieces.size(); ++i) static_cast<void>(index->pieces.Get(i));
  }
  return 0;
}
