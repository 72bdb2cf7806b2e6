#ifndef DSCKPT_TESTS_SUPPORT_PLANTED_RUN_H_
#define DSCKPT_TESTS_SUPPORT_PLANTED_RUN_H_

#include <cstdint>
#include <filesystem>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "dsckpt/dsckpt.h"
#include "tests/support/catch.h"

/// A small training run on Pythia's grid of steps, with the names of GPT-NeoX, in which a few
/// things went wrong at known places. Each checkpoint is one file with statistics.
namespace planted {

inline const std::string kFrozen = "gpt_neox.embed_in.weight";
inline const std::string kSpiking = "gpt_neox.layers.2.mlp.dense_h_to_4h.weight";
inline const std::string kWithNan = "gpt_neox.layers.1.attention.query_key_value.weight";
inline constexpr int64_t kSpikeStep = 9000;
inline constexpr int64_t kMissingStep = 11000;
inline constexpr int64_t kDuplicateStep = 14000;
inline constexpr int64_t kDuplicateOf = 7000;
inline constexpr int64_t kNanStep = 16000;
inline constexpr int64_t kLastStep = 18000;

/// Those that were saved, the missing one not among them.
inline std::vector<int64_t> Steps() {
  std::vector<int64_t> steps = {0};
  for (int64_t step = 1; step <= 512; step *= 2) steps.push_back(step);
  for (int64_t step = 1000; step <= kLastStep; step += 1000) {
    if (step != kMissingStep) steps.push_back(step);
  }
  return steps;
}

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

inline std::vector<Tensor> Model(std::mt19937& random) {
  std::vector<Tensor> model = {{kFrozen, {32, 16}, {}}, {"embed_out.weight", {32, 16}, {}}};
  for (int layer = 0; layer < 3; ++layer) {
    const std::string prefix = "gpt_neox.layers." + std::to_string(layer) + ".";
    model.push_back({prefix + "attention.query_key_value.weight", {48, 16}, {}});
    model.push_back({prefix + "mlp.dense_h_to_4h.weight", {64, 16}, {}});
    model.push_back({prefix + "mlp.dense_h_to_4h.bias", {64}, {}});
  }
  std::normal_distribution<float> weight(0, 0.02f);
  for (Tensor& tensor : model) {
    size_t elements = 1;
    for (const int64_t size : tensor.shape) elements *= static_cast<size_t>(size);
    tensor.values.resize(elements);
    if (tensor.name.ends_with(".bias")) continue;
    for (float& value : tensor.values) value = weight(random);
  }
  return model;
}

inline void Train(std::vector<Tensor>& model, std::mt19937& random) {
  std::normal_distribution<float> update(0, 0.002f);
  for (Tensor& tensor : model) {
    if (tensor.name == kFrozen) continue;
    for (float& value : tensor.values) value += update(random);
  }
}

inline void Save(const std::string& path, const std::vector<Tensor>& model, int64_t step) {
  static const std::vector<uint8_t> mask(64, 1);
  const auto provider = dsckpt::MakeProvider([&](dsckpt::Description& description) {
    for (const Tensor& tensor : model) {
      dsckpt::TensorSource source;
      source.data = tensor.values.data();
      source.dtype = dsckpt::DType::kF32;
      source.shape = tensor.shape;
      description.Tensor(dsckpt::Key(tensor.name), source);
    }
    const std::vector<int64_t> shape = {8, 8};
    dsckpt::TensorSource buffer;
    buffer.data = mask.data();
    buffer.dtype = dsckpt::DType::kU8;
    buffer.shape = shape;
    description.Tensor("gpt_neox.layers.0.attention.bias", buffer);
    description.Attribute("step", dsckpt::Value(step));
    description.Attribute("loss", dsckpt::Value(10.0 / static_cast<double>(step + 1)));
  });
  dsckpt::SaveOptions options;
  options.statistics = true;
  const dsckpt::Status status = dsckpt::SaveFile(path, *provider, options);
  INFO(status.ToString());
  REQUIRE(status.ok());
}

inline std::string PathOf(const std::string& run, int64_t step) {
  return run + "/step" + std::to_string(step) + ".dsckpt";
}

/// Writes the run into a new directory.
inline void WriteRun(const std::string& run) {
  std::filesystem::create_directories(run);
  std::mt19937 random(1);
  std::vector<Tensor> model = Model(random), kept;
  bool nan = false;
  for (const int64_t step : Steps()) {
    if (step != 0) Train(model, random);
    std::vector<Tensor> saved = step == kDuplicateStep ? kept : model;
    if (step == kDuplicateOf) kept = model;
    nan = nan || step == kNanStep;
    for (Tensor& tensor : saved) {
      if (step == kSpikeStep && tensor.name == kSpiking) {
        for (float& value : tensor.values) value *= 20;
      }
      if (nan && tensor.name == kWithNan) {
        tensor.values[5] = std::numeric_limits<float>::quiet_NaN();
      }
    }
    Save(PathOf(run, step), saved, step);
  }
}

}  // namespace planted

#endif  // DSCKPT_TESTS_SUPPORT_PLANTED_RUN_H_
