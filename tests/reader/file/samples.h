#ifndef DSCKPT_TESTS_READER_FILE_SAMPLES_H_
#define DSCKPT_TESTS_READER_FILE_SAMPLES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/file.h"
#include "tests/support/shard_builder.h"
#include "tests/support/temp_dir.h"

/// Bytes that do not compress.
inline std::string RandomBytes(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

/// Bytes that compress a little in every encoding: floats of similar size.
inline std::string FloatBytes(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(count * 4, '\0');
  for (size_t i = 0; i < count; ++i) {
    const float value = 1.0f + static_cast<float>(random() % 1000) / 4096.0f;
    std::memcpy(bytes.data() + 4 * i, &value, 4);
  }
  return bytes;
}

/// A small safetensors file: `json` padded to `length` (0: not at all), then `data`.
inline std::string SafetensorsBytes(std::string json, const std::string& data, size_t length = 0) {
  json.resize(std::max(json.size(), length), ' ');
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(json.size() >> (8 * i));
  return bytes + json + data;
}

inline std::string Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A file in memory.
class StringSource : public dsckpt::Source {
 public:
  explicit StringSource(std::string bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_.size(); }
  dsckpt::Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return {};
  }

 private:
  std::string bytes_;
};

/// Everything a shard can hold. By default in about six megabytes: items of several chunks.
struct RichState {
  struct Item {
    dsckpt::DType dtype;
    std::vector<int64_t> shape;
    dsckpt::Encoding encoding;
    std::string bytes;
  };
  std::map<std::string, Item> tensors;  // By name as in the file.
  std::map<std::string, std::pair<dsckpt::Encoding, std::string>> objects;

  explicit RichState(int64_t rows = 725) {
    using dsckpt::DType;
    using dsckpt::Encoding;
    Add("bias", DType::kF32, {301}, Encoding::kRaw, RandomBytes(1204, 1));
    Add("bytes", DType::kU8, {3}, Encoding::kRaw, "abc");
    Add("complex", DType::kC128, {5}, Encoding::kRaw, RandomBytes(80, 2));
    Add("empty", DType::kF32, {2, 0}, Encoding::kRaw, "");
    Add("int4", DType::kI4, {3, 6}, Encoding::kRaw, RandomBytes(9, 3));
    Add("large", DType::kBF16, {rows, 3000}, Encoding::kRaw,
        RandomBytes(static_cast<size_t>(rows) * 6000, 4));
    Add("layers/0", DType::kF16, {64, 64}, Encoding::kRaw, RandomBytes(8192, 5));
    Add("layers/1", DType::kF64, {}, Encoding::kRaw, RandomBytes(8, 6));
    Add("planes", DType::kF32, {2 * rows, 1000}, Encoding::kBytePlaneZstd,
        FloatBytes(static_cast<size_t>(rows) * 2000, 7));
    Add("zstd", DType::kF32, {5000}, Encoding::kZstd, FloatBytes(5000, 8));
    objects["loader"] = {Encoding::kZstd, std::string(100000, 'x')};
    objects["rng"] = {Encoding::kRaw, RandomBytes(2500, 9)};
    objects["void"] = {Encoding::kRaw, ""};
  }

  void Describe(dsckpt::Description& d) const {
    using dsckpt::Key;
    for (const auto& [name, item] : tensors) {
      if (!name.starts_with("layers/")) Describe(d, Key(name), item);
    }
    d.Tensor("tied", Source(tensors.at("large")));
    d.Begin(dsckpt::NodeKind::kList, "layers");
    Describe(d, Key(), tensors.at("layers/0"));
    Describe(d, Key(), tensors.at("layers/1"));
    d.End();
    for (const auto& [name, object] : objects) {
      dsckpt::ObjectSource source;
      source.encoding = object.first;
      source.bytes = object.second.data();
      source.size = object.second.size();
      d.Object(Key(name), source);
    }
    d.Leaf("note", dsckpt::Value(std::string("hello")));
    d.Attribute("step", dsckpt::Value(int64_t{42}));
    d.Attribute("loss", dsckpt::Value(0.5));
  }

  std::string Shard() const {
    ShardBuilder builder;
    return builder.Build([this](dsckpt::Description& d) { Describe(d); }).value();
  }

 private:
  void Add(const std::string& name, dsckpt::DType dtype, std::vector<int64_t> shape,
           dsckpt::Encoding encoding, std::string bytes) {
    tensors[name] = {dtype, std::move(shape), encoding, std::move(bytes)};
  }
  static dsckpt::TensorSource Source(const Item& item) {
    dsckpt::TensorSource source;
    source.data = item.bytes.data();
    source.dtype = item.dtype;
    source.shape = item.shape;
    source.encoding = item.encoding;
    return source;
  }
  static void Describe(dsckpt::Description& d, const dsckpt::Key& key, const Item& item) {
    d.Tensor(key, Source(item));
  }
};

/// The rich shard in a file.
class RichFile {
 public:
  RichFile() { WriteWholeFile(path(), bytes); }
  std::string path() const { return dir_ / "rich.dsckpt"; }
  dsckpt::File Open(bool map = true) const {
    dsckpt::OpenOptions options;
    options.map = map;
    return dsckpt::File::Open(path(), options).value();
  }

  const RichState state;
  const std::string bytes = state.Shard();

 private:
  TempDir dir_;
};

#endif  // DSCKPT_TESTS_READER_FILE_SAMPLES_H_
