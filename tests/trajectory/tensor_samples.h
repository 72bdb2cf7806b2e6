#ifndef DSCKPT_TESTS_TRAJECTORY_TENSOR_SAMPLES_H_
#define DSCKPT_TESTS_TRAJECTORY_TENSOR_SAMPLES_H_

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "dsckpt/dsckpt.h"
#include "numerics/narrow.h"
#include "numerics/widen.h"
#include "tests/support/catch.h"

// Tensors of any dtype, and files of them.

namespace samples {

using Bytes = std::vector<std::byte>;

struct Sample {
  std::string name;
  dsckpt::DType dtype;
  std::vector<int64_t> shape;
  Bytes bytes;
  dsckpt::Encoding encoding = dsckpt::Encoding::kRaw;
};

/// Of complex dtypes, numbers are parts.
inline dsckpt::DType PartOf(dsckpt::DType dtype) {
  if (dtype == dsckpt::DType::kC64) return dsckpt::DType::kF32;
  if (dtype == dsckpt::DType::kC128) return dsckpt::DType::kF64;
  return dtype;
}

inline Bytes Narrowed(dsckpt::DType dtype, const std::vector<double>& numbers) {
  const dsckpt::DType part = PartOf(dtype);
  Bytes bytes(numbers.size() * dsckpt::FindDType(part)->block_bytes);
  dsckpt::numerics::FindNarrow(part)(numbers.data(), numbers.size(), bytes.data());
  return bytes;
}

inline std::vector<double> Widened(dsckpt::DType dtype, const Bytes& bytes) {
  const dsckpt::DType part = PartOf(dtype);
  std::vector<double> numbers(bytes.size() / dsckpt::FindDType(part)->block_bytes);
  dsckpt::numerics::FindWiden(part)(bytes.data(), numbers.size(), numbers.data());
  return numbers;
}

/// A tensor of random numbers.
inline Sample Random(const std::string& name, dsckpt::DType dtype, int64_t elements,
                     uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  const bool complex = PartOf(dtype) != dtype;
  std::vector<double> numbers(static_cast<size_t>(elements) * (complex ? 2 : 1));
  for (double& number : numbers) number = normal(random);
  return {name, dtype, {elements}, Narrowed(dtype, numbers)};
}

inline void Save(const std::string& path, const std::vector<Sample>& tensors, int64_t step,
                 dsckpt::Container container = dsckpt::Container::kDsckpt) {
  const auto provider = dsckpt::MakeProvider([&](dsckpt::Description& description) {
    for (const Sample& tensor : tensors) {
      dsckpt::TensorSource source;
      source.data = tensor.bytes.data();
      source.dtype = tensor.dtype;
      source.shape = tensor.shape;
      source.encoding = tensor.encoding;
      description.Tensor(tensor.name, source);
    }
    if (container != dsckpt::Container::kDsckpt) return;
    description.Attribute("step", dsckpt::Value(step));
    description.Attribute("loss", dsckpt::Value(1.0 / static_cast<double>(step + 1)));
  });
  dsckpt::SaveOptions options;
  options.container = container;
  const dsckpt::Status saved = dsckpt::SaveFile(path, *provider, options);
  INFO(saved.ToString());
  REQUIRE(saved.ok());
}

inline Bytes ReadTensor(const std::string& path, const std::string& name) {
  const auto file = dsckpt::File::Open(path);
  INFO(file.status().ToString());
  REQUIRE(file.ok());
  const auto view = file->View(name);
  REQUIRE(view.ok());
  return {view->bytes().begin(), view->bytes().end()};
}

}  // namespace samples

#endif  // DSCKPT_TESTS_TRAJECTORY_TENSOR_SAMPLES_H_
