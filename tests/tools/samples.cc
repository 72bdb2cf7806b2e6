#include "tests/tools/samples.h"

#include <complex>
#include <cstddef>
#include <limits>
#include <memory>

#include "dsckpt/dsckpt.h"
#include "tests/support/catch.h"

using namespace dsckpt;

std::string Safetensors(std::string_view header, std::string_view data) {
  std::string file;
  for (size_t i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  file += header;
  file += data;
  return file;
}

std::string Counting(size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i);
  return text;
}

std::vector<float> SampleFloats() {
  std::vector<float> floats(4096);
  for (size_t i = 0; i < floats.size(); ++i) floats[i] = 1.0f + static_cast<float>(i) / 8192;
  return floats;
}

namespace {

void DescribeTensor(Description& description, Key key, const void* data, DType dtype,
                    std::vector<int64_t> shape, Encoding encoding = Encoding::kRaw) {
  TensorSource source;
  source.data = data;
  source.dtype = dtype;
  source.shape = shape;
  source.encoding = encoding;
  description.Tensor(key, source);
}

void DescribeObject(Description& description, Key key, std::string_view media_type,
                    std::string_view bytes) {
  ObjectSource source;
  source.media_type = media_type;
  source.bytes = bytes.data();
  source.size = bytes.size();
  description.Object(key, source);
}

void DescribeAttributes(Description& description) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  description.Attribute("step", Value(int64_t{1200}));
  description.Attribute("loss", Value(2.0));
  description.Attribute("best", Value(-kInfinity));
  description.Attribute("nothing", Value());
  description.Attribute("flag", Value(true));
  description.Attribute("framework", Value(std::string("ex\033ample")));
  description.Attribute("seed", Value(BigInt{true, {0, 0, 0, 0, 0, 0, 0, 0, 1}}));
  description.Attribute("phase", Value(std::complex<double>(0.5, kInfinity)));
  description.Attribute("key", Value(std::vector<std::byte>(4, std::byte{0xFF})));
}

}  // namespace

void WriteSample(const std::string& path) {
  static const std::string embed = Counting(128);
  static const std::string scale = Counting(12);
  static const std::vector<float> zip = SampleFloats();
  const auto provider = MakeProvider([](Description& d) {
    d.Begin(NodeKind::kDict, "model");
    DescribeTensor(d, "embed", embed.data(), kF32, {8, 4});
    DescribeTensor(d, "lm_head", embed.data(), kF32, {8, 4});
    DescribeTensor(d, "scale", scale.data(), kBF16, {2, 3});
    DescribeTensor(d, "zip", zip.data(), kF32, {4096}, Encoding::kBytePlaneZstd);
    DescribeTensor(d, "none", nullptr, kF32, {0, 8});
    d.End();
    d.Begin(NodeKind::kDict, "state");
    d.Leaf(0, Value(int64_t{7}));
    d.Leaf("0", Value(std::string("zero")));
    d.End();
    d.Begin(NodeKind::kTuple, "betas", "torch.Size");
    d.Leaf(Key(), Value(0.9));
    d.Leaf(Key(), Value());
    d.End();
    DescribeObject(d, "rng", "application/octet-stream", "12345678");
    d.Begin(NodeKind::kDict, "text");
    DescribeObject(d, "note", "text/plain", "hello");
    d.End();
    DescribeAttributes(d);
  });
  SaveOptions options;
  options.metadata = {{"author", "somebody"}};
  const Status status = SaveFile(path, *provider, options);
  INFO(status.ToString());
  REQUIRE(status.ok());
}
