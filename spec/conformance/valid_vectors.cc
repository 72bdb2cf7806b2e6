#include <bit>
#include <limits>

#include "spec/conformance/vectors.h"

namespace dsckpt::conformance {
namespace {

using Bytes = std::vector<std::byte>;

// Deterministic and without structure, so that swapped or shifted bytes show.
Bytes Pattern(uint64_t size, uint32_t seed) {
  Bytes bytes(size);
  uint32_t state = seed * 2654435761u + 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

template <typename T>
Bytes BytesOf(std::vector<T> values) {
  const auto* begin = reinterpret_cast<const std::byte*>(values.data());
  return {begin, begin + values.size() * sizeof(T)};
}

void AddTensor(Description& d, Key key, DType dtype, std::vector<int64_t> shape, Bytes bytes,
               Encoding encoding = Encoding::kRaw) {
  const auto owner = std::make_shared<Bytes>(std::move(bytes));
  TensorSource source;
  source.data = owner->data();
  source.dtype = dtype;
  source.shape = shape;
  source.encoding = encoding;
  source.owner = owner;
  d.Tensor(key, source);
}

// Patterned elements; BOOL gets zeros and ones.
void AddTensor(Description& d, Key key, DType dtype, std::vector<int64_t> shape) {
  const Result<uint64_t> size = TensorBytes(*FindDType(dtype), shape);
  if (!size.ok()) return d.Fail(size.status());
  Bytes bytes = Pattern(*size, static_cast<uint32_t>(dtype));
  if (dtype == kBool) {
    for (std::byte& byte : bytes) byte &= std::byte{1};
  }
  AddTensor(d, key, dtype, std::move(shape), std::move(bytes));
}

// Objects have no owner: their bytes live as long as the program.
void AddObject(Description& d, Key key, Bytes bytes, std::string_view media_type,
               Encoding encoding = Encoding::kRaw) {
  static std::vector<std::unique_ptr<Bytes>> kept;
  kept.push_back(std::make_unique<Bytes>(std::move(bytes)));
  ObjectSource source;
  source.media_type = media_type;
  source.encoding = encoding;
  source.bytes = kept.back()->data();
  source.size = kept.back()->size();
  d.Object(key, source);
}

Bytes TextBytes(std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

constexpr std::string_view kOctets = "application/octet-stream";

// The file of spec/format.md, "Worked example".
void Example(Description& d) {
  static const std::vector<uint16_t> embed = {0x3F80, 0x4000, 0xBF80, 0x3F00, 0x7FC1, 0x0000};
  TensorSource tied;
  const int64_t shape[] = {3, 2};
  tied.data = embed.data();
  tied.dtype = kBF16;
  tied.shape = shape;
  d.Begin(NodeKind::kDict, "model");
  d.Tensor("embed", tied);
  AddTensor(d, "bias", kF32, {2}, BytesOf<float>({1, 2}));
  d.Tensor("lm_head", tied);
  d.End();
  d.Begin(NodeKind::kDict, "optim");
  d.Begin(NodeKind::kDict, 0);
  AddTensor(d, "exp_avg", kF32, {2}, BytesOf<float>({0.5f, -0.25f}));
  d.Leaf("step", int64_t{7});
  d.End();
  d.End();
  AddObject(d, "rng", TextBytes("hello\n"), kOctets);
  d.Attribute("step", int64_t{7});
  d.Attribute("loss", 2.5);
}

// The table of spec/format.md, "Layout".
void Layout(Description& d) {
  AddTensor(d, "emb", kBF16, {1024, 8}, Bytes(16384));
  AddTensor(d, "head", kF32, {6});
  AddTensor(d, "bias", kF32, {3});
  AddTensor(d, "scale", kF64, {1});
  AddTensor(d, "ids", kU8, {3});
  AddTensor(d, "empty", kF32, {0});
  AddTensor(d, "phase", kC128, {2});
  AddObject(d, "rng", Pattern(100, 1), kOctets);
}

void DTypes(Description& d) {
  for (const DTypeInfo& dtype : AllDTypes()) {
    AddTensor(d, dtype.name, dtype.code, {2, 4});
  }
  // NaNs with payloads, infinities, negative zero: bits must survive.
  AddTensor(d, "bits.bf16", kBF16, {4}, BytesOf<uint16_t>({0x7FC1, 0xFF80, 0x8000, 0x7F81}));
  AddTensor(d, "bits.f32", kF32, {4},
            BytesOf<uint32_t>({0x7FC00001, 0xFF800000, 0x80000000, 0x7F800001}));
}

void EmptyTensors(Description& d) {
  AddTensor(d, "a", kF32, {0});
  AddTensor(d, "b", kF32, {2, 0});
  AddTensor(d, "c", kF32, {0, 8});
  AddTensor(d, "d", kF32, {1});
  AddTensor(d, "e", kU8, {});
  AddTensor(d, "f", kC128, {0});
  AddTensor(d, "z", DType::kI4, {4, 0});
}

// Listed tensors without bytes before unlisted ones that take whole pages.
void EmptyThenUnlisted(Description& d) {
  AddTensor(d, "z", kF32, {0});
  AddTensor(d, "a", kC128, {256}, Bytes(4096));
  AddTensor(d, "m", kC128, {0});
}

void Names(Description& d) {
  AddTensor(d, "test/test", kU8, {1});
  d.Begin(NodeKind::kDict, "a");
  AddTensor(d, "b", kU8, {2});
  AddTensor(d, "", kU8, {3});
  d.End();
  AddTensor(d, "a/b", kU8, {3});
  AddTensor(d, "a.b", kU8, {4});
  AddTensor(d, "a|b", kU8, {5});
  AddTensor(d, "0", kU8, {6});
  AddTensor(d, 0, kU8, {7});
  AddTensor(d, "", kU8, {8});
  d.Begin(NodeKind::kDict, "state");
  d.Begin(NodeKind::kDict, 0);
  AddTensor(d, "exp_avg", kU8, {9});
  d.End();
  d.End();
  for (const char* name :
       {"~", "~s", "~s0", "007", "-0", "-1", "9223372036854775807", "9223372036854775808",
        "../../etc/passwd", "format", "dsckpt", "\xc3\xbc\xe6\xb5\x8b\xf0\x9f\x98\x80", "u\xcc\x88",
        "\xc3\xbc", "quote\"back\\slash", "\x1b]52;c;x\x07", "line\nfeed\r\ttab\x7f"}) {
    AddTensor(d, name, kU8, {1});
  }
  AddTensor(d, int64_t{-1}, kU8, {1});
  AddTensor(d, std::numeric_limits<int64_t>::min(), kU8, {1});
  d.Begin(NodeKind::kList, "list");
  AddTensor(d, {}, kU8, {1});
  d.Begin(NodeKind::kTuple, {});
  AddObject(d, {}, TextBytes("x"), kOctets);
  d.End();
  d.End();
  AddTensor(d, std::string(300, 'n'), kU8, {1});
}

void Aliases(Description& d) {
  static const std::vector<float> embed = {1, 2, 3, 4};
  TensorSource tied;
  const int64_t square[] = {2, 2};
  const int64_t flat[] = {4};
  tied.data = embed.data();
  tied.dtype = kF32;
  tied.shape = square;
  // The last three collide with members of the JSON header's metadata.
  for (const char* name : {"lm_head", "embed", "zz", "format", "dsckpt.bytes", "note"}) {
    d.Tensor(name, tied);
  }
  tied.shape = flat;  // Another shape: a tensor of its own.
  d.Tensor("flat", tied);
}

BigInt Big(bool negative, std::vector<uint8_t> magnitude) {
  BigInt big;
  big.negative = negative;
  big.magnitude = std::move(magnitude);
  return big;
}

void Scalars(Description& d) {
  d.Leaf("null", std::monostate());
  d.Leaf("true", true);
  d.Leaf("false", false);
  d.Leaf("min", std::numeric_limits<int64_t>::min());
  d.Leaf("max", std::numeric_limits<int64_t>::max());
  d.Leaf("2^63", Big(false, {0, 0, 0, 0, 0, 0, 0, 0x80}));
  d.Leaf("-2^63-1", Big(true, {1, 0, 0, 0, 0, 0, 0, 0x80}));
  d.Leaf("2^128", Big(false, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}));
  d.Leaf("pi", 3.141592653589793);
  d.Leaf("tiny", 5e-324);
  d.Leaf("-0.0", -0.0);
  d.Leaf("inf", std::numeric_limits<double>::infinity());
  d.Leaf("nan", std::bit_cast<double>(uint64_t{0x7FF8000000000123}));
  d.Leaf("complex", std::complex<double>(1.5, -std::numeric_limits<double>::infinity()));
  d.Leaf("text", std::string("\xc3\xbc and\0 NUL", 10));
  d.Leaf("empty", std::string());
  d.Leaf("bytes", std::vector<std::byte>(5, std::byte{0xFE}));
}

void Tree(Description& d) {
  d.Begin(NodeKind::kDict, "scalars");
  Scalars(d);
  d.End();
  d.Begin(NodeKind::kDict, "$dollar");
  d.Leaf("$x", int64_t{1});
  d.End();
  d.Begin(NodeKind::kDict, "mixed keys");
  d.Leaf(1, std::string("int"));
  d.Leaf("1", std::string("string"));
  d.End();
  d.Begin(NodeKind::kList, "set", "py.set");
  d.Leaf({}, int64_t{1});
  d.Leaf({}, int64_t{2});
  d.End();
  d.Begin(NodeKind::kTuple, "size", "torch.Size");
  d.Leaf({}, int64_t{3});
  d.End();
  d.Leaf("dtype", std::string("torch.bfloat16"), "torch.dtype");
  d.Begin(NodeKind::kDict, "empty dict");
  d.End();
  d.Begin(NodeKind::kList, "empty list");
  d.End();
  d.Begin(NodeKind::kTuple, "empty tuple");
  d.End();
  for (int i = 0; i < 60; ++i) d.Begin(NodeKind::kList, i == 0 ? Key("deep") : Key());
  AddTensor(d, {}, kU8, {1});
  for (int i = 0; i < 60; ++i) d.End();
}

void Attributes(Description& d) {
  d.Attribute("step", int64_t{123456});
  d.Attribute("tokens", int64_t{1} << 40);
  d.Attribute("loss", 2.125);
  d.Attribute("lr", 3e-4);
  d.Attribute("framework", std::string("a trainer 1.2"));
  d.Attribute("note \"x\"\n", std::monostate());
}

void Objects(Description& d) {
  AddObject(d, "empty", {}, kOctets);
  AddObject(d, "one", Pattern(1, 1), kOctets);
  AddObject(d, "json", TextBytes("{\"a\":1}"), "application/json");
  AddObject(d, "pickle", TextBytes("cos\nsystem\n(S'touch X'\ntR."), "application/x-python-pickle");
  AddObject(d, "sixty-four", Pattern(64, 2), kOctets);
  AddObject(d, "sixty-five", Pattern(65, 3), kOctets);
  AddObject(d, "zstd", Bytes(3000, std::byte{'z'}), "text/plain;charset=utf-8", Encoding::kZstd);
}

// One chunk and a bit, sparse, so that the file stays small.
Bytes Sparse(uint64_t size) {
  Bytes bytes(size);
  for (uint64_t i = 0; i < size; i += 100'003) bytes[i] = static_cast<std::byte>(1 + i % 255);
  bytes.back() = std::byte{0xEE};
  return bytes;
}

void Frame(Description& d) {
  AddTensor(d, "t", kU8, {static_cast<int64_t>(kFrameBytes)},
            Bytes(kFrameBytes, static_cast<std::byte>(kFrameByte)), Encoding::kZstd);
}

void Encoded(Description& d) {
  const uint64_t size = kChunkBytes + 48;
  const auto elements = static_cast<int64_t>(size / 4);
  AddTensor(d, "zstd", kF32, {elements}, Sparse(size), Encoding::kZstd);
  AddTensor(d, "planes.f32", kF32, {elements}, Sparse(size), Encoding::kBytePlaneZstd);
  AddTensor(d, "planes.c128", kC128, {elements / 4}, Sparse(size), Encoding::kBytePlaneZstd);
  AddTensor(d, "planes.bf16", kBF16, {64}, Bytes(128, std::byte{0x3F}), Encoding::kBytePlaneZstd);
  AddTensor(d, "planes.f8", DType::kF8E4M3, {64}, Bytes(64, std::byte{0x38}),
            Encoding::kBytePlaneZstd);
  AddTensor(d, "int", kI64, {16}, Bytes(128), Encoding::kZstd);
  AddTensor(d, "noise", kF32, {16}, Pattern(64, 9), Encoding::kZstd);  // Stored raw.
  AddTensor(d, "plain", kF32, {16}, Pattern(64, 9));                   // Equal digest.
  AddTensor(d, "empty", kF32, {0}, {}, Encoding::kZstd);               // Raw: nothing to encode.
  AddObject(d, "o", Sparse(size), kOctets, Encoding::kZstd);
}

void MetadataItems(Description& d) { AddTensor(d, "w", kF32, {1}, BytesOf<float>({1})); }

SaveOptions MetadataOptions() {
  SaveOptions options;
  options.metadata_format = "np";
  options.metadata = {{"z", "last"},
                      {"a", "first"},
                      {"note", "quote \" backslash \\ slash / \b\f\n\r\t \x01\x1f \x7f \xc3\xbc"},
                      {"", "empty key"}};
  return options;
}

SaveOptions NoteOptions() {
  SaveOptions options;
  // The member that the alias of this name would get anyway.
  options.metadata = {{"note", "dsckpt.bytes"}, {"notes", "the producer's"}};
  return options;
}

// Something of everything: what the invalid vectors break.
void Mixed(Description& d) {
  d.Begin(NodeKind::kDict, "m");
  AddTensor(d, "w", kF32, {2, 3});
  AddTensor(d, "c", kC128, {3});
  AddTensor(d, "f4", DType::kF4, {4});
  AddTensor(d, "z", kBF16, {512}, Bytes(1024, std::byte{0x3F}), Encoding::kZstd);
  static const std::vector<int32_t> shared = {5, 6};
  TensorSource tied;
  const int64_t shape[] = {2};
  tied.data = shared.data();
  tied.dtype = kI32;
  tied.shape = shape;
  d.Tensor("t1", tied);
  d.Tensor("t2", tied);
  d.End();
  d.Begin(NodeKind::kList, "o");
  AddObject(d, {}, TextBytes("first object"), kOctets);
  AddObject(d, {}, TextBytes("{}"), "application/json");
  d.End();
  d.Begin(NodeKind::kDict, "s");
  d.Leaf("big", Big(true, {0, 0, 0, 0, 0, 0, 0, 0, 1}));
  d.Leaf("complex", std::complex<double>(1, 2));
  d.Leaf("flag", true);
  d.Leaf("nothing", std::monostate());
  d.Leaf("text", std::string("text"), "a.tag");
  d.End();
  d.Attribute("step", int64_t{1});
}

// More than two blocks of every way that elements are widened, and what is not finite.
void Statistics(Description& d) {
  for (const DType dtype : {kF32, kF16, kBF16, kF64, kI8, kU8, kI32, kU64, kC64, DType::kF8E4M3,
                            DType::kF8E5M2, DType::kF8E8M0, kBool}) {
    AddTensor(d, FindDType(dtype)->name, dtype, {9001});
  }
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  AddTensor(d, "special", kF32, {8}, BytesOf<float>({0, -0.0f, kNaN, kInf, -kInf, -kNaN, 2, -3}));
  AddTensor(d, "none", kF32, {3}, BytesOf<float>({kNaN, kInf, kNaN}));
  AddTensor(d, "zeros", kF32, {2}, BytesOf<float>({-0.0f, 0}));
  AddTensor(d, "empty", kF32, {0});
  AddTensor(d, "packed", DType::kF4, {2, 4});
  AddTensor(d, "zstd", kF32, {5000}, Pattern(20000, 3), Encoding::kZstd);
}

SaveOptions VendorOptions() {
  return {.vendor = {{"com.example.second", "text"},
                     {"com.example.first", std::string("\0\xFF", 2)},
                     {"com.example.third", ""}}};
}

}  // namespace

std::vector<ValidVector> ValidVectors() {
  std::vector<ValidVector> vectors = {
      {"example", Example, {}},
      {"layout", Layout, {}},
      {"empty", [](Description&) {}, {}},
      {"nothing", [](Description& d) { d.Flat(); }, {}},  // Not even a tree.
      {"dtypes", DTypes, {}},
      {"empty-tensors", EmptyTensors, {}},
      {"empty-then-unlisted", EmptyThenUnlisted, {}},
      {"names", Names, {}},
      {"aliases", Aliases, NoteOptions()},
      {"tree", Tree, {}},
      {"attributes", Attributes, {}},
      {"objects", Objects, {}},
      {"encoded", Encoded, {}},
      {"frame", Frame, {}},
      {"metadata", MetadataItems, MetadataOptions()},
      {"mixed", Mixed, {}},
  };
  vectors.push_back({"content", Mixed, {}, false});
  vectors.push_back({"statistics", Statistics, {.statistics = true}, false});
  vectors.push_back({"vendor", Attributes, VendorOptions(), false});
  for (ValidVector& vector : PieceVectors()) vectors.push_back(std::move(vector));
  return vectors;
}

}  // namespace dsckpt::conformance
