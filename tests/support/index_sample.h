#ifndef DSCKPT_TESTS_SUPPORT_INDEX_SAMPLE_H_
#define DSCKPT_TESTS_SUPPORT_INDEX_SAMPLE_H_

#include <string_view>
#include <vector>

#include "format/index/index.h"

// A small index with every kind of item, for tests that change one thing in it.

namespace dsckpt::format {

struct Sample {
  IndexColumns columns;
  Geometry geometry;
};

inline void AddTensor(IndexColumns& c, std::string_view name, uint8_t dtype,
                      std::vector<int64_t> shape, uint64_t bytes, uint64_t offset) {
  c.tensor_names.Append(name);
  c.tensor_dtype.push_back(dtype);
  c.dims.insert(c.dims.end(), shape.begin(), shape.end());
  c.dim_end.push_back(static_cast<uint32_t>(c.dims.size()));
  c.tensors.offset.push_back(offset);
  c.tensors.raw_bytes.push_back(bytes);
  c.tensors.stored_bytes.push_back(bytes);
  c.tensors.encoding.push_back(0);
  if (bytes > 0) c.chunk_sums.push_back({offset, bytes});
  c.tensors.chunk_end.push_back(static_cast<uint32_t>(c.chunk_sums.size()));
  c.tensors.stored_chunk_end.push_back(static_cast<uint32_t>(c.stored_chunks.size()));
}

// Every kind of item once. Offsets are worked out by hand from spec/format.md.
inline Sample MakeSample() {
  Sample sample;
  IndexColumns& c = sample.columns;
  c.dtypes = {{12, 32, 1, 4}, {15, 128, 1, 16}, {999, 24, 1, 3}};
  c.media_types = {"application/json"};
  AddTensor(c, "a", 0, {2, 3}, 24, 4096);
  AddTensor(c, "b", 1, {1}, 16, 8192);
  AddTensor(c, "c", 0, {0, 8}, 0, 4096);
  AddTensor(c, "e", 0, {1024}, 4096, 12288);
  AddTensor(c, "u", 2, {5}, 15, 8208);
  c.tensors.encoding[3] = 1;
  c.tensors.stored_bytes[3] = 100;
  c.stored_chunks = {{77, 100, 0}};
  c.tensors.stored_chunk_end = {0, 0, 0, 1, 1};
  c.alias_names.Append("z");
  c.alias_target = {0};
  c.object_names.Append("o");
  c.object_media_type = {0};
  c.chunk_sums.push_back({1, 2});
  c.objects = {{12416}, {10}, {10}, {0}, {5}, {1}};
  sample.geometry = {.data_begin = 4096, .tail_begin = 4120, .index_offset = 12480};
  return sample;
}

inline std::vector<std::byte> Encode(const IndexColumns& columns) {
  return EncodeIndex(columns).value();
}

inline Status ParseStatus(const Sample& sample) {
  const std::vector<std::byte> bytes = Encode(sample.columns);
  return ParseIndex(bytes, sample.geometry).status();
}

}  // namespace dsckpt::format

#endif  // DSCKPT_TESTS_SUPPORT_INDEX_SAMPLE_H_
