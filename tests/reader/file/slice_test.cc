#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/reader/file/samples.h"
#include "tests/support/catch.h"

namespace {

using dsckpt::DType;
using dsckpt::Encoding;
using dsckpt::File;
using dsckpt::Range;
using dsckpt::StatusCode;

struct Sample {
  DType dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};

/// The box by its definition, element by element.
std::string NaiveSlice(const Sample& sample, const std::vector<Range>& box) {
  const size_t width = dsckpt::FindDType(sample.dtype)->block_bytes;
  std::string out;
  std::vector<int64_t> at;
  for (const Range& range : box) {
    if (range.begin == range.end) return out;
    at.push_back(range.begin);
  }
  while (true) {
    size_t element = 0;
    for (size_t i = 0; i < at.size(); ++i) {
      element = element * static_cast<size_t>(sample.shape[i]) + static_cast<size_t>(at[i]);
    }
    out.append(sample.bytes, element * width, width);
    size_t dim = at.size();
    while (dim > 0 && ++at[dim - 1] == box[dim - 1].end) {
      at[dim - 1] = box[dim - 1].begin;
      --dim;
    }
    if (dim == 0) return out;
  }
}

File Open(const Sample& sample, Encoding encoding, const std::string& path, bool map) {
  ShardBuilder builder;
  const auto shard = builder.Build([&](dsckpt::Description& d) {
    dsckpt::TensorSource source;
    source.data = sample.bytes.data();
    source.dtype = sample.dtype;
    source.shape = sample.shape;
    source.encoding = encoding;
    d.Tensor("t", source);
  });
  WriteWholeFile(path, shard.value());
  dsckpt::OpenOptions options;
  options.map = map;
  return File::Open(path, options).value();
}

void CheckSlice(const File& file, const Sample& sample, const std::vector<Range>& box) {
  const std::string expected = NaiveSlice(sample, box);
  std::string out(expected.size(), '\0');
  const dsckpt::Status status = file.ReadSlice("t", box, std::as_writable_bytes(std::span(out)));
  CHECK(status.ok());
  CHECK(out == expected);
}

std::vector<Range> RandomBox(const std::vector<int64_t>& shape, std::mt19937_64& random) {
  std::vector<Range> box;
  for (const int64_t dim : shape) {
    if (random() % 3 == 0) {
      box.push_back({0, dim});
      continue;
    }
    auto begin = static_cast<int64_t>(random() % static_cast<uint64_t>(dim + 1));
    auto end = static_cast<int64_t>(random() % static_cast<uint64_t>(dim + 1));
    if (begin > end) std::swap(begin, end);
    box.push_back({begin, end});
  }
  return box;
}

}  // namespace

TEST_CASE("slices of any rank equal the definition") {
  std::mt19937_64 random(14);
  const std::vector<std::vector<int64_t>> shapes = {
      {}, {7}, {5, 6}, {3, 1, 4}, {2, 3, 4, 5}, {2, 2, 1, 3, 2, 2}, {1}, {0}, {3, 0, 2}};
  TempDir dir;
  for (const auto& shape : shapes) {
    Sample sample{DType::kI32, shape, ""};
    size_t count = 1;
    for (const int64_t dim : shape) count *= static_cast<size_t>(dim);
    sample.bytes = RandomBytes(4 * count, 15);
    for (const bool map : {true, false}) {
      const File file = Open(sample, Encoding::kRaw, dir / "f", map);
      for (int i = 0; i < 40; ++i) CheckSlice(file, sample, RandomBox(shape, random));
    }
    const File encoded = Open(sample, Encoding::kZstd, dir / "f", true);
    for (int i = 0; i < 20; ++i) CheckSlice(encoded, sample, RandomBox(shape, random));
  }
}

TEST_CASE("slices across chunks equal the definition") {
  std::mt19937_64 random(16);
  // 3 x 4 MiB and a part; rows cross the chunk edges.
  const Sample sample{DType::kF32, {37, 991, 97}, FloatBytes(37 * 991 * 97, 17)};
  TempDir dir;
  const File files[] = {Open(sample, Encoding::kRaw, dir / "raw", true),
                        Open(sample, Encoding::kRaw, dir / "raw", false),
                        Open(sample, Encoding::kBytePlaneZstd, dir / "planes", true)};
  for (const File& file : files) {
    CheckSlice(file, sample, {{0, 37}, {0, 991}, {96, 97}});
    CheckSlice(file, sample, {{10, 12}, {0, 991}, {0, 97}});
    CheckSlice(file, sample, {{0, 37}, {500, 501}, {3, 5}});
    for (int i = 0; i < 5; ++i) CheckSlice(file, sample, RandomBox(sample.shape, random));
  }
}

TEST_CASE("a slice reads only the chunks that hold it") {
  // One chunk a row: the outer two are damaged.
  const Sample sample{DType::kF32, {3, 1 << 20}, FloatBytes(3 << 20, 18)};
  TempDir dir;
  for (const Encoding encoding : {Encoding::kRaw, Encoding::kZstd}) {
    const File whole = Open(sample, encoding, dir / "f", false);
    const dsckpt::TensorInfo info = whole.tensor(0);
    std::string bytes = ReadWholeFile(dir / "f");
    bytes[info.offset] ^= 1;
    bytes[info.offset + info.stored_bytes - 1] ^= 1;
    const File file = File::Open(std::make_shared<StringSource>(bytes)).value();
    CheckSlice(file, sample, {{1, 2}, {5, 1 << 20}});
    std::string out(4, '\0');
    for (const int64_t row : {0, 2}) {
      const Range box[] = {{row, row + 1}, {9, 10}};
      CHECK(file.ReadSlice("t", box, std::as_writable_bytes(std::span(out))).code() ==
            StatusCode::kCorrupt);
    }
  }
}

TEST_CASE("slices of sub-byte dtypes stand on byte boundaries") {
  const Sample sample{DType::kI4, {4, 6}, RandomBytes(12, 19)};
  TempDir dir;
  for (const bool map : {true, false}) {
    const File file = Open(sample, Encoding::kRaw, dir / "f", map);
    std::string out(4, '\0');
    const auto bytes = std::as_writable_bytes(std::span(out));
    const Range good[] = {{1, 3}, {2, 6}};
    REQUIRE(file.ReadSlice("t", good, bytes).ok());
    CHECK(out == sample.bytes.substr(4, 2) + sample.bytes.substr(7, 2));
    const Range odd_begin[] = {{1, 3}, {1, 5}};
    CHECK(file.ReadSlice("t", odd_begin, bytes).code() == StatusCode::kInvalidArgument);
    const Range odd_end[] = {{1, 2}, {0, 3}};
    CHECK(file.ReadSlice("t", odd_end, bytes.first(1)).code() == StatusCode::kInvalidArgument);
  }
}

TEST_CASE("impossible slices are refused") {
  const RichFile rich;
  const File file = rich.Open();
  std::string out(4, '\0');
  const auto bytes = std::as_writable_bytes(std::span(out));
  const std::vector<std::vector<Range>> boxes = {
      {}, {{0, 1}, {0, 1}}, {{-1, 0}}, {{2, 1}}, {{301, 302}}};
  for (const auto& box : boxes) {
    CHECK(file.ReadSlice("bias", box, bytes).code() == StatusCode::kInvalidArgument);
  }
  const Range box[] = {{0, 2}};
  const dsckpt::Status status = file.ReadSlice("bias", box, bytes);
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK(status.message().find("8 bytes") != std::string::npos);
  CHECK(file.ReadSlice("none", box, bytes).code() == StatusCode::kNotFound);
}
