#ifndef DSCKPT_TESTS_ANALYSIS_SAMPLES_H_
#define DSCKPT_TESTS_ANALYSIS_SAMPLES_H_

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "dsckpt/dsckpt.h"
#include "tests/support/catch.h"

// Checkpoints of a few tensors.

struct SampleTensor {
  dsckpt::DType dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};
using SampleTensors = std::map<std::string, SampleTensor>;

template <typename T>
SampleTensor Sample(const std::vector<T>& values, std::vector<int64_t> shape = {}) {
  const auto bytes = std::as_bytes(std::span(values));
  if (shape.empty()) shape = {static_cast<int64_t>(values.size())};
  return {dsckpt::kDTypeOf<T>, std::move(shape), {bytes.begin(), bytes.end()}};
}

inline void SaveSample(const std::string& path, SampleTensors& tensors,
                       dsckpt::Encoding encoding = dsckpt::Encoding::kRaw) {
  dsckpt::State state;
  for (auto& [name, tensor] : tensors) {
    state.AddTensor(name, tensor.bytes.data(), tensor.dtype, tensor.shape, {.encoding = encoding});
  }
  REQUIRE(dsckpt::SaveFile(path, state, {}, {.pool_bytes = dsckpt::kMiB}).ok());
}

/// The tensors as plain safetensors, in name order.
inline void SavePlainSample(const std::string& path, const SampleTensors& tensors) {
  std::string header = "{", data;
  for (const auto& [name, tensor] : tensors) {
    std::string shape;
    for (const int64_t size : tensor.shape)
      shape += (shape.empty() ? "" : ",") + std::to_string(size);
    header += (header.size() > 1 ? ",\"" : "\"") + name + "\":{\"dtype\":\"" +
              std::string(dsckpt::FindDType(tensor.dtype)->name) + "\",\"shape\":[" + shape +
              "],\"data_offsets\":[" + std::to_string(data.size()) + ",";
    data.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    header += std::to_string(data.size()) + "]}";
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t length = header.size();
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&length), sizeof length);
  out << header << data;
}

inline dsckpt::Checkpoint OpenSample(const std::string& path, bool map = true) {
  auto opened = dsckpt::Checkpoint::Open(path, {.file = {.map = map}});
  REQUIRE(opened.ok());
  return *opened;
}

#endif  // DSCKPT_TESTS_ANALYSIS_SAMPLES_H_
