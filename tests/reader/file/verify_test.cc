#include "dsckpt/verify.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/reader/file/samples.h"
#include "tests/support/catch.h"

namespace {

using dsckpt::DType;
using dsckpt::Encoding;
using dsckpt::File;
using dsckpt::Problem;
using dsckpt::StatusCode;
using dsckpt::VerifyReport;

VerifyReport VerifyBytes(const std::string& bytes, bool decode = false) {
  TempDir dir;
  WriteWholeFile(dir / "f", bytes);
  dsckpt::VerifyOptions options;
  options.decode = decode;
  return dsckpt::Verify(dir / "f", options).value();
}

bool Has(const VerifyReport& report, const std::string& item, const std::string& kind) {
  return std::any_of(report.problems.begin(), report.problems.end(),
                     [&](const Problem& p) { return p.item == item && p.kind == kind; });
}

bool Names(const VerifyReport& report, const std::string& item) {
  return std::any_of(report.problems.begin(), report.problems.end(),
                     [&](const Problem& p) { return p.item == item; });
}

/// Which region or item holds a byte.
std::string OwnerOf(const File& file, const dsckpt::format::Footer& footer, uint64_t at) {
  if (at < footer.data_begin) return "header";
  if (at >= footer.file_bytes - dsckpt::kFooterBytes) return "footer";
  if (at >= footer.index_offset) return "index";
  for (uint32_t i = 0; i < file.tensor_count(); ++i) {
    const auto info = file.tensor(i);
    if (at >= info.offset && at < info.offset + info.stored_bytes) return std::string(info.name);
  }
  for (uint32_t i = 0; i < file.object_count(); ++i) {
    const auto info = file.object(i);
    if (at >= info.offset && at < info.offset + info.stored_bytes) return std::string(info.name);
  }
  return "padding";
}

/// The rich shard, flipped in place on disk.
class FlipFile {
 public:
  explicit FlipFile(int64_t rows = 725) : state_(rows) {
    ShardBuilder builder;
    bytes_ = builder.Build([&](dsckpt::Description& d) { state_.Describe(d); }).value();
    footer_ = builder.footer();
    WriteWholeFile(path(), bytes_);
    file_ = File::Open(path()).value();
  }
  std::string path() const { return dir_ / "f"; }
  const File& file() const { return *file_; }
  const dsckpt::format::Footer& footer() const { return footer_; }
  uint64_t size() const { return bytes_.size(); }

  VerifyReport VerifyFlipped(uint64_t at, int bit) {
    Put(at, static_cast<char>(bytes_[at] ^ (1 << bit)));
    VerifyReport report = dsckpt::Verify(path()).value();
    Put(at, bytes_[at]);
    return report;
  }

 private:
  void Put(uint64_t at, char value) {
    std::fstream out(path(), std::ios::binary | std::ios::in | std::ios::out);
    out.seekp(static_cast<std::streamoff>(at));
    out.put(value);
  }

  RichState state_;
  std::string bytes_;
  dsckpt::format::Footer footer_;
  TempDir dir_;
  std::optional<File> file_;
};

}  // namespace

TEST_CASE("a whole file verifies, every byte of it") {
  const RichFile rich;
  for (const bool decode : {false, true}) {
    uint64_t last = 0;
    dsckpt::VerifyOptions options;
    options.decode = decode;
    options.progress = [&](uint64_t done, uint64_t total) {
      CHECK(done >= last);
      CHECK(total == rich.bytes.size());
      last = done;
    };
    const VerifyReport report = dsckpt::Verify(rich.path(), options).value();
    CHECK(report.ok);
    CHECK(report.problems.empty());
    CHECK(report.checked_bytes == rich.bytes.size());
    CHECK(last == rich.bytes.size());
  }
}

TEST_CASE("what a progress callback throws is an error of the verification") {
  const RichFile rich;
  for (const int threads : {1, 4}) {
    dsckpt::VerifyOptions options;
    options.threads = threads;
    options.progress = [](uint64_t, uint64_t) { throw std::runtime_error("from the callback"); };
    const auto report = dsckpt::Verify(rich.path(), options);
    CHECK(report.status().code() == StatusCode::kInvalidArgument);
    CHECK(report.status().message().find("from the callback") != std::string::npos);
  }
}

TEST_CASE("C37: a flipped bit in each region is found and named") {
  FlipFile flip;
  const auto& footer = flip.footer();
  const auto large = flip.file().FindTensor("large").value();
  const auto rng = flip.file().FindObject("rng").value();
  struct Case {
    uint64_t at;
    std::string item;
  };
  const Case cases[] = {
      {large.offset, "large"},
      {large.offset + large.raw_bytes - 1, "large"},
      {flip.file().FindTensor("planes")->offset + 7, "planes"},
      {flip.file().FindTensor("int4")->offset, "int4"},
      {rng.offset + 2499, "rng"},
      {0, "header"},
      {7, "header"},
      {8, "header"},
      {20, "header"},
      {60, "header"},
      {footer.data_begin - 1, "header"},
      {footer.tail_begin, "padding"},
      {footer.index_offset + 40, "index"},
      {flip.size() - dsckpt::kFooterBytes, "footer"},
      {flip.size() - 60, "footer"},
      {flip.size() - 16, "footer"},
      {flip.size() - 1, "footer"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.at, c.item);
    const VerifyReport report = flip.VerifyFlipped(c.at, 2);
    CHECK(!report.ok);
    CHECK(Names(report, c.item));
  }
}

TEST_CASE("C37: a flipped bit anywhere is found and attributed") {
  FlipFile flip(20);
  std::mt19937_64 random(20);
  std::vector<uint64_t> edges;
  for (uint64_t i = 0; i < 200; ++i) {
    edges.push_back(random() % flip.footer().data_begin);
    edges.push_back(flip.footer().tail_begin + random() % 8192);
    edges.push_back(flip.footer().index_offset + random() % flip.footer().index_bytes);
    edges.push_back(flip.size() - 1 - random() % dsckpt::kFooterBytes);
  }
  int missed = 0;
  for (int i = 0; i < 2000; ++i) {
    const uint64_t at = static_cast<size_t>(i) < edges.size() ? edges[static_cast<size_t>(i)]
                                                              : random() % flip.size();
    const VerifyReport report = flip.VerifyFlipped(at, static_cast<int>(random() % 8));
    const std::string owner = OwnerOf(flip.file(), flip.footer(), at);
    if (!report.ok && Names(report, owner)) continue;
    ++missed;
    UNSCOPED_INFO("missed byte " << at << " of " << owner);
  }
  CHECK(missed == 0);
}

TEST_CASE("C36, C33: verify reports cut and extended files, without a signal") {
  const RichFile rich;
  const size_t size = rich.bytes.size();
  for (const size_t cut : {size - 1, size - 8, size / 2, size_t{5000}, size_t{300}}) {
    CAPTURE(cut);
    const VerifyReport report = VerifyBytes(rich.bytes.substr(0, cut));
    CHECK(!report.ok);
    REQUIRE(report.problems.size() == 1);
    CHECK(report.problems[0].item == "file");
    CHECK(report.problems[0].kind == "truncated");
    CHECK(report.problems[0].expected == std::to_string(size) + " bytes");
    CHECK(report.problems[0].found == std::to_string(cut) + " bytes");
  }
  for (const size_t extra : {size_t{1}, size_t{4096}}) {
    const VerifyReport report = VerifyBytes(rich.bytes + std::string(extra, '\0'));
    REQUIRE(report.problems.size() == 1);
    CHECK(report.problems[0].kind == "trailing-bytes");
    CHECK(report.problems[0].offset == size);
  }
}

TEST_CASE("verify finds raw damage that only decoding shows") {
  const RichState state;
  ShardBuilder builder;
  // The sums of the encoded tensors are wrong; their stored bytes are not.
  builder.edit_index = [](dsckpt::format::IndexColumns& columns) {
    for (uint32_t i = 0; i < columns.tensor_names.size(); ++i) {
      if (columns.tensors.encoding[i] == 0) continue;
      columns.chunk_sums[columns.tensors.chunk_end[i] - 1].low ^= 1;
    }
  };
  const auto shard = builder.Build([&](dsckpt::Description& d) { state.Describe(d); });
  CHECK(VerifyBytes(shard.value()).ok);
  const VerifyReport report = VerifyBytes(shard.value(), true);
  CHECK(report.problems.size() == 2);
  CHECK(Has(report, "planes", "checksum"));
  CHECK(Has(report, "zstd", "checksum"));
}

TEST_CASE("verify names chunks that do not decode") {
  const RichState state;
  ShardBuilder builder;
  builder.edit_index = [](dsckpt::format::IndexColumns& columns) {
    for (uint32_t i = 0; i < columns.tensor_names.size(); ++i) {
      if (columns.tensor_names[i] == "zstd") columns.tensors.encoding[i] = 77;
      // The planes of this one are joined although there are none.
    }
  };
  const auto shard = builder.Build([&](dsckpt::Description& d) { state.Describe(d); });
  CHECK(VerifyBytes(shard.value()).ok);
  CHECK(Has(VerifyBytes(shard.value(), true), "zstd", "unsupported"));
}

TEST_CASE("verify compares the JSON header with the index") {
  struct Case {
    std::string from, to, item;
  };
  const Case cases[] = {
      {"\"dtype\":\"F32\",\"shape\":[301]", "\"dtype\":\"I32\",\"shape\":[301]", "bias"},
      {"\"bias\":", "\"bios\":", "bias"},
      {"\"shape\":[64,64]", "\"shape\":[4096] ", "layers/0"},
      {"\"dsckpt\":\"1.1 ", "\"dsckpt\":\"1.2 ", "header"},
      {"\"__dsckpt__\"", "\"__dsckpt_x\"", "header"},
      {"\"shape\":[3],\"data_off", "\"shape\":[4],\"data_off", "header"},
  };
  const RichState state;
  for (const Case& c : cases) {
    ShardBuilder builder;
    builder.edit_header = [&](std::string& header) {
      const size_t at = header.find(c.from);
      REQUIRE(at != std::string::npos);
      header.replace(at, c.from.size(), c.to);
    };
    const auto shard = builder.Build([&](dsckpt::Description& d) { state.Describe(d); });
    const VerifyReport report = VerifyBytes(shard.value());
    CAPTURE(c.to);
    CHECK(report.problems.size() == 1);
    CHECK(Names(report, c.item));
  }
}

TEST_CASE("verify compares the tree with the items' names") {
  const RichState state;
  const auto problems = [&](const std::function<void(dsckpt::format::TreeColumns&)>& edit) {
    ShardBuilder builder;
    builder.edit_index = [&](dsckpt::format::IndexColumns& columns) { edit(columns.tree); };
    const auto shard = builder.Build([&](dsckpt::Description& d) { state.Describe(d); });
    return VerifyBytes(shard.value());
  };
  CHECK(problems([](auto&) {}).ok);
  const VerifyReport renamed =
      problems([](dsckpt::format::TreeColumns& tree) { tree.heap[tree.heap.find("bias")] = 'X'; });
  CHECK(Has(renamed, "bias", "structure"));
  const VerifyReport twice =
      problems([](dsckpt::format::TreeColumns& tree) { tree.nodes[2].key = tree.nodes[1].key; });
  CHECK(Has(twice, "index", "structure"));
}

TEST_CASE("verify of an index that breaks a rule names the index") {
  const RichState state;
  ShardBuilder builder;
  builder.edit_index = [](dsckpt::format::IndexColumns& columns) {
    columns.tensors.offset[0] += 64;
  };
  const VerifyReport report =
      VerifyBytes(builder.Build([&](dsckpt::Description& d) { state.Describe(d); }).value());
  CHECK(Has(report, "index", "structure"));
}

TEST_CASE("verify bounds its report") {
  const std::string zeros(1500, '\0');
  const int64_t shape[] = {1};
  ShardBuilder builder;
  std::string shard = builder
                          .Build([&](dsckpt::Description& d) {
                            for (size_t i = 0; i < zeros.size(); ++i) {
                              dsckpt::TensorSource source;
                              source.data = &zeros[i];
                              source.shape = shape;
                              d.Tensor(dsckpt::Key("t" + std::to_string(i)), source);
                            }
                          })
                          .value();
  for (uint64_t i = 0; i < zeros.size(); ++i) shard[builder.footer().data_begin + i] = 1;
  const VerifyReport report = VerifyBytes(shard);
  REQUIRE(report.problems.size() == 1001);
  CHECK(report.problems[0].offset == builder.footer().data_begin);
  CHECK(std::is_sorted(report.problems.begin(), report.problems.end(),
                       [](const Problem& a, const Problem& b) { return a.offset < b.offset; }));
  CHECK(report.problems[1000].kind == "structure");
  CHECK(report.problems[1000].found == "500 more");
}

TEST_CASE("verify of plain safetensors checks header and extents") {
  const std::string json = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  const VerifyReport good = VerifyBytes(SafetensorsBytes(json, "abcd", 64));
  CHECK(good.ok);
  CHECK(good.checked_bytes == 72);
  CHECK(Has(VerifyBytes(SafetensorsBytes(json, "abc", 64)), "file", "truncated"));
  CHECK(Has(VerifyBytes(SafetensorsBytes(json, "abcde", 64)), "file", "trailing-bytes"));
  const std::string bad = R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,4]}})";
  CHECK(Has(VerifyBytes(SafetensorsBytes(bad, "abcd")), "header", "structure"));
  std::string long_header = SafetensorsBytes(json, "abcd", 4096);
  long_header.replace(0, 8, std::string("\x01\xe1\xf5\x05\0\0\0\0", 8));  // 100,000,001
  CHECK(Has(VerifyBytes(long_header), "header", "structure"));
  const std::string unknown = R"({"a":{"dtype":"X8","shape":[4],"data_offsets":[0,4]}})";
  CHECK(Has(VerifyBytes(SafetensorsBytes(unknown, "abcd")), "header", "unsupported"));
}

TEST_CASE("verify gives no report for what is no checkpoint") {
  TempDir dir;
  WriteWholeFile(dir / "zip", "PK\x03\x04" + std::string(500, 'z'));
  CHECK(dsckpt::Verify(dir / "zip").status().code() == StatusCode::kNotCheckpoint);
  CHECK(dsckpt::Verify(dir / "none").status().code() == StatusCode::kNotFound);
  CHECK(dsckpt::Verify(dir.path()).status().code() == StatusCode::kInvalidArgument);
}
