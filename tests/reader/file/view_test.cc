#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "tests/reader/file/samples.h"
#include "tests/support/catch.h"

namespace {

using dsckpt::DType;
using dsckpt::Encoding;
using dsckpt::File;
using dsckpt::StatusCode;

bool Aligned(const void* pointer, uint64_t alignment) {
  return reinterpret_cast<uintptr_t>(pointer) % alignment == 0;
}

}  // namespace

TEST_CASE("views give every tensor's bytes, mapped and read") {
  const RichFile rich;
  for (const bool map : {true, false}) {
    const File file = rich.Open(map);
    for (const auto& [name, item] : rich.state.tensors) {
      CAPTURE(map, name);
      const dsckpt::Tensor tensor = file.View(name).value();
      CHECK(Text(tensor.bytes()) == item.bytes);
      CHECK(tensor.mapped() == (map && item.encoding == Encoding::kRaw));
      const uint64_t size = item.bytes.size();
      const uint64_t power = size == 0 ? 4096 : std::min<uint64_t>(size & (~size + 1), 4096);
      CHECK(Aligned(tensor.bytes().data(), power));
    }
    CHECK(Text(file.View("tied")->bytes()) == rich.state.tensors.at("large").bytes);
    CHECK(file.View("none").status().code() == StatusCode::kNotFound);
    CHECK(file.View("rng").status().code() == StatusCode::kNotFound);
    for (const auto& [name, object] : rich.state.objects) {
      CHECK(Text(file.ReadObject(name).value()) == object.second);
    }
    CHECK(file.ReadObject("none").status().code() == StatusCode::kNotFound);
  }
}

TEST_CASE("C01: every dtype comes back bit-exact in every encoding") {
  for (const dsckpt::DTypeInfo& dtype : dsckpt::AllDTypes()) {
    for (const Encoding encoding : {Encoding::kRaw, Encoding::kZstd, Encoding::kBytePlaneZstd}) {
      const bool planes = dtype.floating && dtype.block_elements == 1;
      if (encoding == Encoding::kBytePlaneZstd && !planes) continue;
      const std::string bytes =
          RandomBytes(dtype.block_bytes * 24, 11) + std::string(dtype.block_bytes * 1000, '\x7f');
      const int64_t shape[] = {2, 512 * static_cast<int64_t>(dtype.block_elements)};
      ShardBuilder builder;
      const auto shard = builder.Build([&](dsckpt::Description& d) {
        dsckpt::TensorSource source;
        source.data = bytes.data();
        source.dtype = dtype.code;
        source.shape = shape;
        source.encoding = encoding;
        d.Tensor("t", source);
      });
      CAPTURE(std::string(dtype.name), dsckpt::EncodingName(encoding));
      REQUIRE(shard.ok());
      TempDir dir;
      WriteWholeFile(dir / "f", *shard);
      const File file = File::Open(dir / "f").value();
      CHECK(file.tensor(0).dtype.name == dtype.name);
      CHECK(file.tensor(0).encoding == encoding);
      CHECK(Text(file.View("t")->bytes()) == bytes);
    }
  }
}

TEST_CASE("typed views check the dtype") {
  const RichFile rich;
  const File file = rich.Open();
  const dsckpt::Tensor bias = file.View("bias").value();
  const auto floats = bias.As<float>();
  REQUIRE(floats.ok());
  CHECK(floats->size() == 301);
  CHECK(bias.As<double>().status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("views outlive the file handle and the file") {
  const RichFile rich;
  std::optional<dsckpt::Tensor> mapped, read;
  {
    mapped = rich.Open().View("large").value();
    read = rich.Open().View("planes").value();
  }
  std::filesystem::remove(rich.path());
  CHECK(Text(mapped->bytes()) == rich.state.tensors.at("large").bytes);
  CHECK(mapped->info().name == "large");
  CHECK(Text(read->bytes()) == rich.state.tensors.at("planes").bytes);
  CHECK(read->info().shape[0] == 1450);
}

TEST_CASE("C13: a mapped view survives the replacement of its file") {
  const float values[] = {1, 2, 3};
  const int64_t shape[] = {3};
  TempDir dir;
  ShardBuilder builder;
  const auto build = [&](const void* data) {
    return builder
        .Build([&](dsckpt::Description& d) {
          dsckpt::TensorSource source;
          source.data = data;
          source.dtype = DType::kF32;
          source.shape = shape;
          d.Tensor("w", source);
        })
        .value();
  };
  WriteWholeFile(dir / "p", build(values));
  const dsckpt::Tensor old = File::Open(dir / "p")->View("w").value();
  REQUIRE(old.mapped());
  WriteWholeFile(dir / "p.new", build(old.bytes().data()));
  std::filesystem::rename(dir / "p.new", dir / "p");
  const dsckpt::Tensor fresh = File::Open(dir / "p")->View("w").value();
  for (const dsckpt::Tensor* tensor : {&old, &fresh}) {
    const auto elements = tensor->As<float>().value();
    CHECK(std::vector<float>(elements.begin(), elements.end()) == std::vector<float>{1, 2, 3});
  }
}

TEST_CASE("C04: misaligned tensors of a safetensors file are copied to aligned memory") {
  // "aligned" ends where "odd" begins: at an odd offset of the data, and the data at an odd one.
  const std::string data = RandomBytes(3 + 16 + 8, 12);
  const std::string json = R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                           R"("b":{"dtype":"F32","shape":[4],"data_offsets":[3,19]},)"
                           R"("c":{"dtype":"F64","shape":[1],"data_offsets":[19,27]}})";
  TempDir dir;
  for (const size_t length : {size_t{248}, size_t{249}}) {
    WriteWholeFile(dir / "f", SafetensorsBytes(json, data, length));
    const File file = File::Open(dir / "f").value();
    CHECK(file.format() == dsckpt::FileFormat::kSafetensors);
    CHECK(file.format_version().empty());
    CHECK(!file.Digest(file.tensor(0)));
    CHECK(file.View("a")->mapped());
    CHECK(Text(file.View("a")->bytes()) == data.substr(0, 3));
    const dsckpt::Tensor b = file.View("b").value();
    const dsckpt::Tensor c = file.View("c").value();
    CHECK(b.mapped() == ((8 + length + 3) % 4 == 0));
    CHECK(c.mapped() == ((8 + length + 19) % 8 == 0));
    CHECK(Aligned(b.bytes().data(), 4));
    CHECK(Aligned(c.bytes().data(), 8));
    CHECK(Text(b.bytes()) == data.substr(3, 16));
    CHECK(Text(c.bytes()) == data.substr(19, 8));
  }
}

TEST_CASE("a safetensors file without tensors or metadata opens") {
  TempDir dir;
  WriteWholeFile(dir / "f", SafetensorsBytes("{}", ""));
  const File file = File::Open(dir / "f").value();
  CHECK(file.tensor_count() == 0);
  CHECK(file.Metadata()->empty());
  CHECK(!file.tree());
  CHECK(!file.attributes());
}

TEST_CASE("safetensors items are sorted by name and keep their metadata") {
  const std::string json = R"({"__metadata__":{"k":"v"},)"
                           R"("z":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                           R"("a":{"dtype":"I16","shape":[1,1],"data_offsets":[2,4]}})";
  const File file =
      File::Open(std::make_shared<StringSource>(SafetensorsBytes(json, "wxyz"))).value();
  REQUIRE(file.tensor_count() == 2);
  CHECK(file.tensor(0).name == "a");
  CHECK(file.tensor(0).dtype.code == DType::kI16);
  CHECK(Text(file.View("a")->bytes()) == "yz");
  CHECK(Text(file.View("z")->bytes()) == "wx");
  CHECK(file.Metadata().value() == std::vector<std::pair<std::string, std::string>>{{"k", "v"}});
}

TEST_CASE("digests depend on content, dtype and shape alone") {
  const std::string bytes = FloatBytes(1'500'000, 13);
  const int64_t shape[] = {1'500'000};
  std::optional<dsckpt::Hash128> first;
  for (const Encoding encoding : {Encoding::kRaw, Encoding::kZstd, Encoding::kBytePlaneZstd}) {
    ShardBuilder builder;
    const auto shard = builder.Build([&](dsckpt::Description& d) {
      dsckpt::TensorSource source;
      source.data = bytes.data();
      source.dtype = DType::kF32;
      source.shape = shape;
      source.encoding = encoding;
      d.Tensor("name of " + std::to_string(static_cast<int>(encoding)), source);
    });
    const File file = File::Open(std::make_shared<StringSource>(shard.value())).value();
    const auto digest = file.Digest(file.tensor(0));
    REQUIRE(digest);
    if (!first) first = digest;
    CHECK(*digest == *first);
  }
}

TEST_CASE("an unknown dtype or encoding fails its item alone") {
  const RichState state;
  ShardBuilder builder;
  builder.edit_index = [](dsckpt::format::IndexColumns& columns) {
    for (auto& dtype : columns.dtypes) {
      if (dtype.code == static_cast<uint16_t>(DType::kC128)) dtype.code = 999;
    }
    for (uint8_t& encoding : columns.tensors.encoding) {
      if (encoding == static_cast<uint8_t>(Encoding::kZstd)) encoding = 77;
    }
  };
  const auto shard = builder.Build([&](dsckpt::Description& d) { state.Describe(d); });
  const File file = File::Open(std::make_shared<StringSource>(shard.value())).value();
  CHECK(file.FindTensor("complex")->dtype.name == "unknown");
  CHECK(file.View("complex").status().code() == StatusCode::kUnsupported);
  CHECK(file.View("zstd").status().code() == StatusCode::kUnsupported);
  CHECK(file.View("bias").ok());
  CHECK(file.View("planes").ok());
  std::string out(20000, '\0');
  const dsckpt::LoadRequest request{"zstd", out.data(), out.size()};
  CHECK(file.Load(std::span(&request, 1)).code() == StatusCode::kUnsupported);
}

TEST_CASE("C37: reads that check refuse damaged chunks and name the item") {
  const RichFile rich;
  const File whole = rich.Open();
  for (const char* name : {"bias", "large", "planes", "zstd"}) {
    CAPTURE(name);
    const dsckpt::TensorInfo info = whole.FindTensor(name).value();
    std::string damaged = rich.bytes;
    damaged[info.offset + info.stored_bytes - 1] ^= 4;
    const File file = File::Open(std::make_shared<StringSource>(damaged)).value();
    const dsckpt::Status status = file.View(name).status();
    CHECK(status.code() == StatusCode::kCorrupt);
    CHECK(status.message().find(name) != std::string::npos);
    CHECK(file.View("layers/0").ok());
  }
  std::string damaged = rich.bytes;
  damaged[whole.FindObject("rng")->offset] ^= 4;
  const File file = File::Open(std::make_shared<StringSource>(damaged)).value();
  CHECK(file.ReadObject("rng").status().code() == StatusCode::kCorrupt);
}

TEST_CASE("C48: an item that claims more than its stored bytes can hold is refused") {
  const RichState state(2);
  ShardBuilder builder;
  builder.edit_index = [](dsckpt::format::IndexColumns& columns) {
    for (uint32_t i = 0; i < columns.object_names.size(); ++i) {
      if (columns.object_names[i] == "loader") columns.objects.raw_bytes[i] = dsckpt::kChunkBytes;
    }
  };
  const auto shard = builder.Build([&](dsckpt::Description& d) { state.Describe(d); });
  const File file = File::Open(std::make_shared<StringSource>(shard.value())).value();
  const dsckpt::Status status = file.ReadObject("loader").status();
  CHECK(status.code() == StatusCode::kCorrupt);
  CHECK(status.message().find("cannot hold 4194304") != std::string::npos);
}
