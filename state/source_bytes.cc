#include "state/source_bytes.h"

#include <cstring>

#include "base/guarded.h"
#include "state/strided.h"

namespace dsckpt {

uint32_t ElementBytes(DType dtype) { return FindDType(dtype)->block_bytes; }

void CopyFromMemory(const Description::Data& data, SourceIndex index, uint64_t begin,
                    std::span<std::byte> out) {
  const auto& source = data.sources.tensors[index];
  // Gather only reads; StridedView serves Scatter too, hence the cast.
  auto* memory = static_cast<std::byte*>(const_cast<void*>(source.data));
  if (source.strides_begin == Description::Data::kContiguous) {
    std::memcpy(out.data(), memory + begin, out.size());
    return;
  }
  const auto& identity = data.identity.tensors[index];
  Gather({.data = memory,
          .element_bytes = ElementBytes(identity.dtype),
          .shape = data.Shape(index),
          .strides = std::span(data.sources.strides).subspan(source.strides_begin, identity.rank)},
         begin, out);
}

Status ReadHostTensor(const Description::Data& data, SourceIndex index, uint64_t begin,
                      std::span<std::byte> out) {
  if (const auto reader = data.sources.tensors[index].reader) {
    return Guarded([&] { return data.sources.readers[reader.value()](begin, out); });
  }
  CopyFromMemory(data, index, begin, out);
  return Status();
}

}  // namespace dsckpt
