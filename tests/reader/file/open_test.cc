#include <sys/mman.h>

#include <cerrno>
#include <filesystem>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/syscalls.h"
#include "tests/reader/file/samples.h"
#include "tests/support/catch.h"

namespace {

using dsckpt::File;
using dsckpt::StatusCode;

dsckpt::Status OpenStatus(const std::string& bytes) {
  TempDir dir;
  WriteWholeFile(dir / "f", bytes);
  return File::Open(dir / "f").status();
}

std::string EmptyShard() {
  ShardBuilder builder;
  return builder.Build([](dsckpt::Description&) {}).value();
}

}  // namespace

TEST_CASE("an open shard lists its items in name order") {
  const RichFile rich;
  const File file = rich.Open();
  CHECK(file.format() == dsckpt::FileFormat::kDsckpt);
  CHECK(file.format_version() == "1.1");
  CHECK(file.path() == rich.path());
  CHECK(file.file_bytes() == rich.bytes.size());
  REQUIRE(file.tensor_count() == rich.state.tensors.size());
  uint32_t ordinal = 0;
  for (const auto& [name, item] : rich.state.tensors) {
    const dsckpt::TensorInfo info = file.tensor(ordinal);
    CHECK(info.name == name);
    CHECK(info.dtype.code == item.dtype);
    CHECK(std::vector<int64_t>(info.shape.begin(), info.shape.end()) == item.shape);
    CHECK(info.raw_bytes == item.bytes.size());
    CHECK(info.encoding == item.encoding);
    CHECK(info.ordinal == ordinal++);
    CHECK(file.FindTensor(name)->name == name);
  }
  REQUIRE(file.alias_count() == 1);
  CHECK(file.alias(0).name == "tied");
  CHECK(file.tensor(file.alias(0).target).name == "large");
  CHECK(file.FindTensor("tied")->name == "large");
  REQUIRE(file.object_count() == 3);
  CHECK(file.object(1).name == "rng");
  CHECK(file.object(1).media_type == "application/octet-stream");
  CHECK(file.FindObject("rng")->raw_bytes == 2500);
  CHECK(file.FindTensor("rng").status().code() == StatusCode::kNotFound);
  CHECK(file.FindObject("bias").status().code() == StatusCode::kNotFound);
}

TEST_CASE("tree, attributes and metadata of an open shard") {
  const RichFile rich;
  std::optional<dsckpt::Node> layers;
  {
    const File file = rich.Open();
    CHECK(std::get<int64_t>(file.Attribute("step").value()) == 42);
    CHECK(std::get<double>(file.Attribute("loss").value()) == 0.5);
    CHECK(file.Attribute("lr").status().code() == StatusCode::kNotFound);
    CHECK(file.attributes()->size() == 2);
    const auto metadata = file.Metadata().value();
    CHECK(metadata[0] == std::pair<std::string, std::string>("dsckpt", "1.1     "));
    CHECK(metadata[1].first == "dsckpt.bytes");
    CHECK(std::stoull(metadata[1].second) == rich.bytes.size());
    CHECK(std::get<std::string>(file.tree()->Find("note")->value()) == "hello");
    CHECK(file.tree()->Find("tied")->kind() == dsckpt::NodeKind::kAlias);
    layers = file.tree()->Find("layers");
  }
  // A node keeps what it borrows, also after the file is gone.
  REQUIRE(layers);
  std::vector<std::string> names;
  for (const dsckpt::Node& node : *layers) names.emplace_back(node.item_name());
  CHECK(names == std::vector<std::string>{"layers/0", "layers/1"});
}

TEST_CASE("damage to the JSON header fails what reads it, not the rest") {
  const RichState state(2);
  std::string bytes = state.Shard();
  const size_t at = bytes.find("\"pt\"");
  REQUIRE(at < 4096);
  bytes[at + 1] = 'q';
  const File file = File::Open(std::make_shared<StringSource>(bytes)).value();
  CHECK(file.Metadata().status().code() == StatusCode::kCorrupt);
  CHECK(Text(file.View("bias")->bytes()) == state.tensors.at("bias").bytes);
}

TEST_CASE("a shard whose JSON header lists other tensors is opened only when that is asked for") {
  const RichState state(2);
  ShardBuilder builder;
  builder.edit_header = [](std::string& header) {
    header.replace(header.find("[301]"), 5, "[103]");
  };
  const auto describe = [&](dsckpt::Description& d) { state.Describe(d); };
  // That many elements are another number of bytes: nobody reads such a header.
  CHECK(OpenStatus(builder.Build(describe).value()).message().find("tensor 'bias'") !=
        std::string::npos);

  builder.edit_header = [](std::string& header) {
    header.replace(header.find("\"F16\""), 5, "\"I16\"");
  };
  const std::string made = builder.Build(describe).value();
  std::string damaged = state.Shard();
  damaged.replace(damaged.find("\"F16\""), 5, "\"I16\"");
  for (const auto& [bytes, why] :
       {std::pair(made, "its checksums are right"), std::pair(damaged, "its checksum is wrong")}) {
    const dsckpt::Status status = OpenStatus(bytes);
    CHECK(status.code() == StatusCode::kMismatch);
    for (const std::string_view part :
         {"'layers/0'", "F16 [64, 64]", "I16 [64, 64]", why, "dsckpt verify", "--ignore-header"}) {
      INFO(status.message());
      CHECK(status.message().find(part) != std::string::npos);
    }
    const File file =
        File::Open(std::make_shared<StringSource>(bytes), {.ignore_header = true}).value();
    CHECK(file.FindTensor("layers/0")->dtype.code == dsckpt::kF16);
    CHECK(Text(file.View("layers/0")->bytes()) == state.tensors.at("layers/0").bytes);
  }
}

TEST_CASE("opening reads a JSON header of more than a page, each byte once") {
  class CountingSource final : public StringSource {
   public:
    using StringSource::StringSource;
    dsckpt::Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
      reads.emplace_back(offset, out.size());
      return StringSource::ReadAt(offset, out);
    }
    mutable std::vector<std::pair<uint64_t, uint64_t>> reads;
  };
  const std::string data(200, 'x');
  const auto shard = [&](int tensors, std::string_view last_dtype) {
    ShardBuilder builder;
    builder.edit_header = [&](std::string& header) {
      const size_t entry = header.rfind("\"t");
      header.replace(header.find("\"U8\"", entry), 4, last_dtype);
    };
    return builder.Build([&](dsckpt::Description& d) {
      const int64_t shape[] = {1};
      for (int i = 0; i < tensors; ++i) {
        d.Tensor("t" + std::to_string(100 + i),
                 {.data = data.data() + i, .dtype = dsckpt::kU8, .shape = shape});
      }
    });
  };
  for (const int tensors : {10, 200}) {
    const std::string bytes = shard(tensors, "\"U8\"").value();
    const auto source = std::make_shared<CountingSource>(bytes);
    const File file = File::Open(source).value();
    CHECK(file.tensor_count() == static_cast<uint32_t>(tensors));
    const uint64_t header_bytes = file.tensor(0).offset;
    CHECK((header_bytes > 4096) == (tensors == 200));
    CHECK(source->reads.size() == (tensors == 200 ? 4 : 3));
    if (tensors == 200) {
      CHECK(source->reads.back() == std::pair(uint64_t{4096}, header_bytes - 4096));
    }
    CHECK(OpenStatus(shard(tensors, "\"I8\"").value()).code() == StatusCode::kMismatch);
  }
}

TEST_CASE("C36: every cut and every appended length is refused with both sizes") {
  const std::string shard = EmptyShard();
  const size_t size = shard.size();
  struct Case {
    std::string bytes;
    StatusCode code;
  };
  const Case cases[] = {
      {shard.substr(0, size - 1), StatusCode::kTruncated},
      {shard.substr(0, size - 8), StatusCode::kTruncated},
      {shard.substr(0, size / 2), StatusCode::kTruncated},
      {shard.substr(0, 200), StatusCode::kTruncated},
      {shard + "x", StatusCode::kTrailingBytes},
      {shard + std::string(4096, '\0'), StatusCode::kTrailingBytes},
  };
  for (const Case& c : cases) {
    CAPTURE(c.bytes.size(), size);
    const dsckpt::Status status = OpenStatus(c.bytes);
    CHECK(status.code() == c.code);
    CHECK(status.message().find(std::to_string(size)) != std::string::npos);
    CHECK(status.message().find(std::to_string(c.bytes.size())) != std::string::npos);
    CHECK(!status.path().empty());
  }
  CHECK(OpenStatus("").code() == StatusCode::kNotCheckpoint);
  for (size_t cut = 0; cut < size; cut += 61) {
    CAPTURE(cut);
    CHECK(!OpenStatus(shard.substr(0, cut)).ok());
  }
}

TEST_CASE("C36: cut and extended plain safetensors files") {
  const std::string whole =
      SafetensorsBytes(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "abcd", 64);
  CHECK(OpenStatus(whole).ok());
  for (const size_t cut : {whole.size() - 1, whole.size() - 4, size_t{40}, size_t{9}}) {
    CAPTURE(cut);
    CHECK(OpenStatus(whole.substr(0, cut)).code() == StatusCode::kTruncated);
  }
  const dsckpt::Status longer = OpenStatus(whole + "xyz");
  CHECK(longer.code() == StatusCode::kTrailingBytes);
  CHECK(longer.message().find("76") != std::string::npos);
  CHECK(longer.message().find("79") != std::string::npos);
}

TEST_CASE("C48: header lengths are checked before anything is allocated") {
  const std::string json = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  const auto with_length = [&](uint64_t length) {
    std::string bytes = SafetensorsBytes(json, "abcd");
    for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
    return OpenStatus(bytes);
  };
  CHECK(with_length(json.size()).ok());
  const dsckpt::Status huge = with_length(uint64_t{1} << 63);
  CHECK(!huge.ok());
  CHECK(huge.message().find("9223372036854775808") != std::string::npos);
  const dsckpt::Status over = with_length(100'000'001);
  CHECK(over.code() == StatusCode::kCorrupt);
  const dsckpt::Status beyond = with_length(json.size() + 5);
  CHECK(beyond.code() == StatusCode::kTruncated);
}

TEST_CASE("C48: hostile safetensors headers name the field") {
  struct Case {
    const char* json;
    const char* word;
  };
  const Case cases[] = {
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,4]}})", "a"},
      {R"({"a":{"dtype":"U8","shape":[9223372036854775807,2],"data_offsets":[0,4]}})", "a"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})", "data_offsets"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
       R"("b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
       "overlap"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.json);
    const dsckpt::Status status = OpenStatus(SafetensorsBytes(c.json, "abcd"));
    CHECK(status.code() == StatusCode::kCorrupt);
    CHECK(status.message().find(c.word) != std::string::npos);
  }
  std::string nested = "{\"a\":";
  nested += std::string(100'000, '[');
  CHECK(OpenStatus(SafetensorsBytes(nested, "")).code() == StatusCode::kCorrupt);
}

TEST_CASE("C48: dimension products in an index are checked without allocating") {
  const std::string byte = "x";
  for (const auto& dims :
       {std::vector<int64_t>{int64_t{1} << 62, 4}, std::vector<int64_t>{9223372036854775807, 2}}) {
    ShardBuilder builder;
    builder.edit_index = [&](dsckpt::format::IndexColumns& columns) { columns.dims = dims; };
    const auto shard = builder.Build([&](dsckpt::Description& d) {
      dsckpt::TensorSource source;
      const int64_t shape[] = {1, 1};
      source.data = byte.data();
      source.shape = shape;
      d.Tensor("wide", source);
    });
    const dsckpt::Status status = OpenStatus(shard.value());
    CHECK(status.code() == StatusCode::kCorrupt);
    CHECK(status.message().find("wide") != std::string::npos);
    CHECK(status.message().find("shape") != std::string::npos);
  }
}

TEST_CASE("a damaged index is refused before it is parsed") {
  RichState state;
  ShardBuilder builder;
  std::string shard = builder.Build([&](dsckpt::Description& d) { state.Describe(d); }).value();
  shard[builder.footer().index_offset + 100] ^= 1;
  const dsckpt::Status status = OpenStatus(shard);
  CHECK(status.code() == StatusCode::kCorrupt);
  CHECK(status.message().find("index checksum") != std::string::npos);
  CHECK(status.offset() == static_cast<int64_t>(builder.footer().index_offset));
}

TEST_CASE("newer versions and features are refused with what they need") {
  ShardBuilder builder;
  builder.edit_footer = [](dsckpt::format::Footer& footer) { footer.version_major = 7; };
  const dsckpt::Status version = OpenStatus(builder.Build([](dsckpt::Description&) {}).value());
  CHECK(version.code() == StatusCode::kUnsupported);
  CHECK(version.message().find("7.1") != std::string::npos);
  builder.edit_footer = [](dsckpt::format::Footer& footer) { footer.must_understand = 2; };
  CHECK(OpenStatus(builder.Build([](dsckpt::Description&) {}).value()).code() ==
        StatusCode::kUnsupported);
}

TEST_CASE("a source that is no file gives the same content") {
  const RichFile rich;
  const File file = File::Open(std::make_shared<StringSource>(rich.bytes)).value();
  CHECK(file.path().empty());
  for (const auto& [name, item] : rich.state.tensors) {
    const dsckpt::Tensor tensor = file.View(name).value();
    CHECK(!tensor.mapped());
    CHECK(Text(tensor.bytes()) == item.bytes);
  }
  CHECK(Text(file.ReadObject("rng").value()) == rich.state.objects.at("rng").second);
  CHECK(File::Open(std::shared_ptr<const dsckpt::Source>()).status().code() ==
        StatusCode::kInvalidArgument);
}

TEST_CASE("C33: a file system that refuses mmap is read instead") {
  dsckpt::io::Syscalls refusing = dsckpt::io::RealSyscalls();
  refusing.mmap = [](void* address, size_t bytes, int protection, int flags, int fd,
                     off_t offset) -> void* {
    if (fd < 0) return ::mmap(address, bytes, protection, flags, fd, offset);
    errno = ENODEV;
    return MAP_FAILED;
  };
  const RichFile rich;
  const dsckpt::io::Syscalls* before = dsckpt::io::ReplaceSyscalls(&refusing);
  {
    const File file = rich.Open();
    for (const auto& [name, item] : rich.state.tensors) {
      const dsckpt::Tensor tensor = file.View(name).value();
      CHECK(!tensor.mapped());
      CHECK(Text(tensor.bytes()) == item.bytes);
    }
  }
  dsckpt::io::ReplaceSyscalls(before);
}

TEST_CASE("C33: without a mapping a file may be cut under its reader") {
  const RichFile rich;
  const File file = rich.Open(false);
  std::filesystem::resize_file(rich.path(), 8192);
  CHECK(file.View("large").status().code() == StatusCode::kTruncated);
  CHECK(file.ReadObject("rng").status().code() == StatusCode::kTruncated);
  std::string out(rich.state.tensors.at("large").bytes.size(), '\0');
  const dsckpt::LoadRequest request{"large", out.data(), out.size()};
  CHECK(file.Load(std::span(&request, 1)).code() == StatusCode::kTruncated);
}

TEST_CASE("a mapped file holds no descriptor, and outlives its name all the same") {
  const auto descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto header = [](const std::string& version) {
    return R"({"__metadata__":{"v":")" + version +
           R"("},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  };
  const auto read = [](const File& file) {
    std::string out(2, ' ');
    const dsckpt::Range box[] = {{1, 3}};
    const auto metadata = file.Metadata();
    REQUIRE(metadata.ok());
    REQUIRE(file.ReadSlice("a", box, std::as_writable_bytes(std::span(out))).ok());
    return metadata->at(0).second + out;
  };
  TempDir dir;
  const std::string path = dir / "f";
  WriteWholeFile(path, SafetensorsBytes(header("1"), "abcd"));
  const auto before = descriptors();
  std::vector<File> files;
  for (int i = 0; i < 20; ++i) files.push_back(File::Open(path).value());
  for (const File& file : files) CHECK(file.View("a")->mapped());
  CHECK(descriptors() == before);
  // Opened again where that is the same file.
  CHECK(read(files[0]) == "1bc");
  CHECK(descriptors() == before + 1);
  // Another file has the name, then none.
  WriteWholeFile(dir / "g", SafetensorsBytes(header("2"), "wxyz"));
  std::filesystem::rename(dir / "g", path);
  CHECK(read(files[0]) == "1bc");
  CHECK(read(files[1]) == "1bc");
  CHECK(read(File::Open(path).value()) == "2xy");
  std::filesystem::remove(path);
  CHECK(read(files[2]) == "1bc");
  CHECK(descriptors() == before + 1);
  files.clear();
  CHECK(descriptors() == before);
}

TEST_CASE("a shard of a hash that is not known says so, and its digests are those of its bytes") {
  const std::string valid = std::string(DSCKPT_SOURCE_DIR) + "/spec/conformance/valid/";
  const File other = File::Open(valid + "other-hash.dsckpt").value();
  CHECK(other.hash_id() == 200);
  CHECK_FALSE(other.verifiable());
  const File known = File::Open(valid + "later-fields.dsckpt").value();
  CHECK(known.hash_id() == 1);
  CHECK(known.verifiable());
  // Both hold the same items; the object is encoded.
  CHECK_FALSE(other.Digest(other.tensor(0)));
  CHECK(other.ComputeDigest(other.tensor(0)).value() == known.Digest(known.tensor(0)).value());
  CHECK(other.object(0).encoding != dsckpt::Encoding::kRaw);
  CHECK_FALSE(other.Digest(other.object(0)));
  CHECK(other.ComputeDigest(other.object(0)).value() == known.Digest(known.object(0)).value());
  CHECK(SameObject(other, other.object(0), known, known.object(0)).value());
  const File rank0 = File::Open(valid + "other-hash-sharded/0.dsckpt").value();
  const File rank1 = File::Open(valid + "other-hash-sharded/1.dsckpt").value();
  CHECK(SameObject(rank0, rank0.object(0), rank1, rank1.object(0)).value());
  CHECK_FALSE(SameObject(rank0, rank0.object(1), rank1, rank1.object(1)).value());
  dsckpt::ObjectInfo as_text = rank1.object(0);
  as_text.media_type = "text/plain";
  CHECK_FALSE(SameObject(rank0, rank0.object(0), rank1, as_text).value());
}
