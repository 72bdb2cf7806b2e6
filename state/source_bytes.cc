#include "state/source_bytes.h"

#include <cstring>

#include "base/guarded.h"
#include "state/strided.h"

namespace dsckpt {

uint32_t ElementBytes(DType dtype) { return FindDType(dtype)->block_bytes; }

void CopyFromMemory(const Description::Data& data, uint32_t described, uint64_t begin,
                    std::span<std::byte> out) {
  const auto& source = data.tensor_sources[described];
  // Gather only reads; StridedView serves Scatter too, hence the cast.
  auto* memory = static_cast<std::byte*>(const_cast<void*>(source.data));
  if (source.strides_begin == Description::Data::kContiguous) {
    std::memcpy(out.data(), memory + begin, out.size());
    return;
  }
  const auto& identity = data.tensors[described];
  Gather({.data = memory,
          .element_bytes = ElementBytes(identity.dtype),
          .shape = std::span(data.dims).subspan(source.dims_begin, identity.rank),
          .strides = std::span(data.strides).subspan(source.strides_begin, identity.rank)},
         begin, out);
}

Status ReadHostTensor(const Description::Data& data, uint32_t described, uint64_t begin,
                      std::span<std::byte> out) {
  const uint32_t reader = data.tensor_sources[described].reader;
  if (reader != 0) return Guarded([&] { return data.readers[reader - 1](begin, out); });
  CopyFromMemory(data, described, begin, out);
  return Status();
}

}  // namespace dsckpt
