#include "dsckpt/merge.h"

#include <filesystem>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/engine.h"
#include "dsckpt/file.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;
using Strings = std::vector<std::string>;

namespace {

constexpr int64_t kRows = 512, kColumns = 1024;  // 2 MiB a tensor

/// Two ranks' shards: tensors in halves, an object that differs, an attribute that differs.
Strings WriteShards(const TempDir& dir, int tensors = 1) {
  Strings paths;
  for (int64_t rank = 0; rank < 2; ++rank) {
    const auto each = static_cast<size_t>(kRows / 2 * kColumns);
    const std::vector<float> halves(each * static_cast<size_t>(tensors),
                                    static_cast<float>(rank + 1));
    const std::string rng = "rank " + std::to_string(rank);
    const auto provider = MakeProvider([&](Description& d) {
      const int64_t shape[] = {kRows / 2, kColumns};
      d.Begin(NodeKind::kDict, "model");
      for (int i = 0; i < tensors; ++i) {
        const std::string name = "w" + std::to_string(i);
        const OwnedPiece piece{.logical_name = "model/" + name,
                               .logical_shape = {kRows, kColumns},
                               .box = {{rank * kRows / 2, (rank + 1) * kRows / 2}, {0, kColumns}}};
        const Piece view = piece.view();
        TensorSource source;
        source.data = halves.data() + each * static_cast<size_t>(i);
        source.dtype = DType::kF32;
        source.shape = shape;
        source.capture = Capture::kUntilFence;
        source.pieces = std::span(&view, 1);
        d.Tensor(name, source);
      }
      d.End();
      d.Object("rng", {.bytes = rng.data(), .size = rng.size()});
      d.Leaf("epoch", int64_t{4});
      d.Attribute("step", int64_t{7});
      d.Attribute("host", rng);
    });
    paths.push_back(dir / ("s" + std::to_string(rank)));
    REQUIRE(SaveFile(paths.back(), *provider).ToString() == "Ok");
  }
  return paths;
}

/// Entries of the directory besides the shards.
Strings Made(const TempDir& dir) {
  Strings names;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    const std::string name = entry.path().filename().string();
    if (name != "s0" && name != "s1") names.push_back(name);
  }
  return names;
}

/// One output of each kind.
MergeOptions Kind(int kind) {
  MergeOptions options;
  options.shards = kind == 0 ? 0 : 2;
  if (kind == 2) options.container = Container::kSafetensors;
  return options;
}

}  // namespace

TEST_CASE("a merge writes what its report says, in each kind of output") {
  const TempDir dir;
  const Strings shards = WriteShards(dir, 3);
  const int kind = GENERATE(0, 1, 2);
  CAPTURE(kind);
  MergeOptions options = Kind(kind);
  std::vector<uint64_t> totals;
  options.progress = [&](uint64_t done, uint64_t total) {
    CHECK(done <= total);
    totals.push_back(total);
  };
  options.dry_run = true;
  REQUIRE(Merge(shards, dir / "out", options).status().ToString() == "Ok");
  CHECK(Made(dir).empty());
  options.dry_run = false;
  const auto report = Merge(shards, dir / "out", options);
  REQUIRE(report.status().ToString() == "Ok");
  const uint64_t bytes = 3 * kRows * kColumns * 4;
  CHECK(report->latest_of_run.empty());
  CHECK(report->shards == 2);
  CHECK(report->pieces == 6);
  CHECK(report->piece_bytes == bytes);
  CHECK(report->tensors == 3);
  CHECK(report->bytes == bytes);
  CHECK(report->files.size() == (kind == 0 ? 1 : 2));
  CHECK(report->files[0].bytes == (kind == 0 ? bytes : bytes / 3));
  CHECK(report->files[0].tensors == (kind == 0 ? 3 : 1));
  CHECK(report->rank_specific == 1);
  CHECK(report->tensors_only == (kind == 2));
  CHECK(report->objects == (kind == 2 ? 0 : 2));
  CHECK(report->dropped.objects == (kind == 2 ? 2 : 0));
  CHECK(report->dropped.values == (kind == 2));
  CHECK(report->dropped.attributes == (kind == 2 ? 1 : 0));  // The one in which shards differ.
  CHECK(report->dropped.inexpressible_attributes == 0);
  CHECK(report->conflicting_attributes == Strings{"host"});
  for (const uint64_t total : totals) CHECK(total == bytes);

  const std::string file = dir / (kind == 2 ? "out/model-00001-of-00002.safetensors" : "out");
  const auto merged = Checkpoint::Open(file);
  REQUIRE(merged.status().ToString() == "Ok");
  std::vector<float> w(static_cast<size_t>(kRows * kColumns));
  const std::string name = "model/w0";
  CHECK(merged->Read({.name = name, .whole = true, .out = std::as_writable_bytes(std::span(w))})
            .ToString() == "Ok");
  CHECK(w.front() == 1.0f);
  CHECK(w.back() == 2.0f);
  CHECK(merged->step() == 7);

  CHECK(Merge(shards, dir / "out", options).status().code() == StatusCode::kAlreadyExists);
  options.replace = true;
  CHECK(Merge(shards, dir / "out", options).status().ToString() == "Ok");
}

TEST_CASE("a merge that is cancelled, or whose callback throws, leaves nothing behind") {
  const TempDir dir;
  const Strings shards = WriteShards(dir, 64);  // 128 MiB: still being written at the first poll
  const int kind = GENERATE(0, 1, 2);
  CAPTURE(kind);
  MergeOptions options = Kind(kind);
  bool writing = false;
  SECTION("while it plans") {
    int asked = 0;
    options.cancelled = [&] { return ++asked == 10; };
    CHECK(Merge(shards, dir / "out", options).status().code() == StatusCode::kCancelled);
    CHECK(asked == 10);
  }
  SECTION("while it writes") {
    options.progress = [&](uint64_t, uint64_t) { writing = true; };
    options.cancelled = [&] { return writing; };
    const Status status = Merge(shards, dir / "out", options).status();
    if (writing) CHECK(status.code() == StatusCode::kCancelled);
  }
  SECTION("by an exception") {
    options.progress = [&](uint64_t, uint64_t) {
      writing = true;
      throw std::runtime_error("no more");
    };
    const Status status = Merge(shards, dir / "out", options).status();
    if (writing) {
      CHECK(status.code() == StatusCode::kInvalidArgument);
      CHECK(status.message() == "a callback threw: no more");
    }
  }
  // A machine that writes all of it within one poll has an output instead.
  if (!writing && Made(dir) == Strings{"out"}) return;
  CHECK(Made(dir).empty());
}

TEST_CASE("a merge refuses options that say nothing or too much") {
  const TempDir dir;
  const Strings shards = WriteShards(dir);
  const auto refused = [&](const MergeOptions& options, const std::string& why) {
    const Status status = Merge(shards, dir / "out", options).status();
    CHECK(status.code() == StatusCode::kInvalidArgument);
    CHECK(status.message().find(why) != std::string::npos);
    CHECK(Made(dir).empty());
  };
  MergeOptions both;
  both.shards = 2;
  both.max_shard_bytes = 1000;
  refused(both, "give one");
  MergeOptions integers;
  integers.selection.dtype = DType::kI8;
  refused(integers, "F16, BF16, F32 or F64");
  MergeOptions nothing;
  nothing.selection.names.excludes = {"*"};
  refused(nothing, "leave no tensor");
  CHECK(Merge(Strings(), dir / "out").status().code() == StatusCode::kInvalidArgument);
  MergeOptions strict;
  strict.strict = true;
  strict.container = Container::kSafetensors;
  const Status status = Merge(shards, dir / "out", strict).status();
  CHECK(status.code() == StatusCode::kUnsupported);
  CHECK(status.message().ends_with(": safetensors cannot hold its 2 objects and 1 attribute"));
  CHECK(Made(dir).empty());
}

TEST_CASE("a selection of tensors is renamed and cast") {
  const TempDir dir;
  const Strings shards = WriteShards(dir, 2);
  MergeOptions options;
  options.selection = {.names = {.filters = {"model/*"}, .excludes = {"*1"}},
                       .strip_prefix = "model/",
                       .renames = {"s/w\\([0-9]\\)/x/", "s/^w/weight./"},
                       .dtype = DType::kBF16};
  CHECK(Merge(shards, dir / "out", options).status().code() ==
        StatusCode::kInvalidArgument);  // The first replacement changes no name.
  options.selection.renames.erase(options.selection.renames.begin());
  const auto report = Merge(shards, dir / "out", options);
  REQUIRE(report.status().ToString() == "Ok");
  CHECK(report->tensors == 1);
  CHECK(report->cast == 1);
  CHECK(report->bytes == kRows * kColumns * 2);
  const File file = File::Open(dir / "out").value();
  CHECK(file.tensor_count() == 1);
  CHECK(file.tensor(0).name == "weight.0");
  CHECK(file.tensor(0).dtype.code == DType::kBF16);
  CHECK(file.View("weight.0")->bytes()[1] == std::byte{0x3F});  // 1.0 is 0x3F80.
}

TEST_CASE("the file that names a run's latest checkpoint is no output") {
  const TempDir dir;
  const Strings shards = WriteShards(dir);
  std::filesystem::create_directory(dir / "run");
  REQUIRE(Merge(shards, dir / "run/a").status().ToString() == "Ok");
  WriteWholeFile(dir / "run/latest", "a\n");
  MergeOptions options;
  options.replace = true;
  const Status status = Merge(shards, dir / "run/latest", options).status();
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK(ReadWholeFile(dir / "run/latest") == "a\n");
  CHECK(Merge(dir / "run", dir / "whole")->latest_of_run == dir / "run/a");
  // Elsewhere it is a name like others.
  std::filesystem::create_directory(dir / "elsewhere");
  CHECK(Merge(shards, dir / "elsewhere/latest").status().ToString() == "Ok");
}

TEST_CASE("merge: an output whose manifest is in parts is one that can be replaced") {
  const TempDir dir;
  const std::string source =
      std::string(DSCKPT_SOURCE_DIR) + "/spec/conformance/valid/sharded-parts";
  const std::string out = dir / "out";
  std::filesystem::copy(source, out);
  MergeOptions options;
  options.replace = true;
  options.max_shard_bytes = 100;
  const std::string input[] = {source};
  CHECK(Merge(input, out, options).status().ToString() == "Ok");
  CHECK(Checkpoint::Open(out)->manifest_parts() == 0);
  CHECK_FALSE(std::filesystem::exists(out + "/dsckpt.manifest.00000"));
}

TEST_CASE("merge: where the hash is not known, bytes decide what differs, and it is said") {
  const TempDir dir;
  const std::string source =
      std::string(DSCKPT_SOURCE_DIR) + "/spec/conformance/valid/other-hash-sharded";
  const Strings shards = {source + "/0.dsckpt", source + "/1.dsckpt"};
  for (const Strings& inputs : {Strings{source}, shards, Strings{shards[0]}}) {
    const Status refused = Merge(inputs, dir / "out", MergeOptions{}).status();
    CHECK(refused.code() == StatusCode::kUnsupported);
    CHECK(refused.path() == shards[0]);
    CHECK(refused.message().find("found those of hash id 200") != std::string::npos);
    CHECK(refused.message().find("--no-verify") != std::string::npos);
    CHECK(Made(dir).empty());
  }
  MergeOptions options;
  options.verify = false;
  const Result<MergeReport> report = Merge(shards, dir / "out", options);
  REQUIRE(report.status().ToString() == "Ok");
  CHECK(report->objects == 3);
  CHECK(report->rank_specific == 1);
  const File out = File::Open(dir / "out").value();
  CHECK(out.verifiable());
  const auto text = [&](const char* name) {
    const auto bytes = out.ReadObject(name).value();
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  CHECK(text("config") == "of all");
  CHECK(text("rng") == "rank 0");
  CHECK(text("ranks/1/rng") == "rank 1");
}
