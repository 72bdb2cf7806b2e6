#include "dsckpt/verify.h"

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/checkpoint_writer.h"
#include "dsckpt/engine.h"
#include "dsckpt/merge.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;
using Strings = std::vector<std::string>;

namespace {

/// A checkpoint of two shards, step 1 of the run `path`.
void SaveRun(const std::string& path) {
  const std::vector<float> values(1000, 1.5f);
  const int64_t shape[] = {1000};
  const auto part = [&](const std::string& name) {
    return MakeProvider([&, name](Description& d) {
      d.Tensor(name, {.data = values.data(), .dtype = DType::kF32, .shape = shape});
    });
  };
  const auto first = part("a"), second = part("b");
  const auto engine = Engine::Create({.pool_bytes = kMiB}).value();
  const auto writer = CheckpointWriter::Create(*engine, {.run_directory = path}).value();
  const std::vector<ShardSource> shards = {{"x", first.get()}, {"y", second.get()}};
  REQUIRE(writer->Save(1, shards)->WaitDurable().ToString() == "Ok");
}

Strings Paths(const VerifyCheckpointReport& report) {
  Strings paths;
  for (const FileVerification& file : report.files) paths.push_back(file.path);
  return paths;
}

}  // namespace

TEST_CASE("a good checkpoint: every file is read, and foreign entries are named") {
  const TempDir dir;
  SaveRun(dir / "run");
  const std::string whole = dir / "run/step-0000000001";
  WriteWholeFile(whole + "/notes.txt", "mine");
  Strings told;
  uint64_t last_done = 0, last_total = 1;
  VerifyCheckpointOptions options;
  options.on_file = [&](const FileVerification& file) { told.push_back(file.path); };
  options.on_problem = [](const Status& problem) { FAIL_CHECK(problem.ToString()); };
  options.progress = [&](const std::string& path, uint64_t done, uint64_t total) {
    CHECK(path.starts_with(whole));
    last_done = done;
    last_total = total;
  };
  for (const std::string& path : {whole, dir / "run"}) {
    told.clear();
    const auto report = VerifyCheckpoint(path, options);
    REQUIRE(report.status().ToString() == "Ok");
    CHECK(report->ok);
    CHECK(Paths(*report) == Strings{whole + "/x", whole + "/y"});
    CHECK(told == Paths(*report));
    CHECK(report->checked_bytes ==
          std::filesystem::file_size(whole + "/x") + std::filesystem::file_size(whole + "/y"));
    CHECK(report->files[0].has_checksums);
    CHECK(report->problems.empty());
    CHECK(report->ignored_entries == Strings{whole + "/notes.txt"});
    CHECK(last_done == last_total);
  }
}

TEST_CASE("what is wrong with a checkpoint stands in the report") {
  const TempDir dir;
  SaveRun(dir / "run");
  const std::string whole = dir / "run/step-0000000001";
  StatusCode code = StatusCode::kOk;
  size_t files = 1;
  SECTION("a shard is missing") {
    std::filesystem::remove(whole + "/y");
    code = StatusCode::kIncomplete;
  }
  SECTION("a shard is another one") {
    std::filesystem::copy_file(whole + "/x", whole + "/y",
                               std::filesystem::copy_options::overwrite_existing);
    code = StatusCode::kMismatch;
  }
  SECTION("the manifest is broken") {
    std::string bytes = ReadWholeFile(whole + "/dsckpt.manifest");
    bytes[bytes.size() / 2] ^= 1;
    WriteWholeFile(whole + "/dsckpt.manifest", bytes);
    code = StatusCode::kCorrupt;
    files = 0;
  }
  std::vector<StatusCode> told;
  VerifyCheckpointOptions options;
  options.on_problem = [&](const Status& problem) { told.push_back(problem.code()); };
  for (const std::string& path : {whole, dir / "run"}) {
    told.clear();
    const auto report = VerifyCheckpoint(path, options);
    REQUIRE(report.status().ToString() == "Ok");
    CHECK_FALSE(report->ok);
    CHECK(report->files.size() == files);
    REQUIRE(!report->problems.empty());
    CHECK(report->problems[0].code() == code);
    CHECK(report->problems[0].path().starts_with(whole));
    CHECK(told.size() == report->problems.size());
  }
}

TEST_CASE("a flipped bit is found in its file, and the others are good") {
  const TempDir dir;
  SaveRun(dir / "run");
  const std::string shard = dir / "run/step-0000000001/y";
  std::string bytes = ReadWholeFile(shard);
  bytes[File::Open(shard)->FindTensor("b")->offset] ^= 1;
  WriteWholeFile(shard, bytes);
  const auto report = VerifyCheckpoint(dir / "run");
  REQUIRE(report.status().ToString() == "Ok");
  CHECK_FALSE(report->ok);
  CHECK(report->problems.empty());
  REQUIRE(report->files.size() == 2);
  CHECK(report->files[0].report.ok);
  REQUIRE(report->files[1].report.problems.size() == 1);
  CHECK(report->files[1].report.problems[0].item == "b");
  CHECK(report->files[1].report.problems[0].kind == "checksum");
}

TEST_CASE("models, single files, and what is none of these") {
  const TempDir dir;
  SaveRun(dir / "run");
  MergeOptions options;
  options.container = Container::kSafetensors;
  options.shards = 2;
  REQUIRE(Merge(dir / "run", dir / "model", options).status().ToString() == "Ok");
  for (const std::string& path : {dir / "model", dir / "model/model.safetensors.index.json"}) {
    const auto report = VerifyCheckpoint(path);
    CHECK(report->ok);
    CHECK(report->files.size() == 2);
    CHECK_FALSE(report->files[0].has_checksums);
  }
  std::filesystem::remove(dir / "model/model-00002-of-00002.safetensors");
  const auto incomplete = VerifyCheckpoint(dir / "model");
  CHECK_FALSE(incomplete->ok);
  REQUIRE(incomplete->problems.size() == 1);
  CHECK(incomplete->problems[0].code() == StatusCode::kIncomplete);

  CHECK(VerifyCheckpoint(dir / "run/step-0000000001/x")->ok);
  const auto nothing = VerifyCheckpoint(dir / "nothing");
  CHECK_FALSE(nothing->ok);
  REQUIRE(nothing->files.size() == 1);
  CHECK(nothing->files[0].status.code() == StatusCode::kNotFound);
  std::filesystem::create_directory(dir / "empty");
  const auto empty = VerifyCheckpoint(dir / "empty");
  CHECK_FALSE(empty->ok);
  REQUIRE(empty->problems.size() == 1);
  CHECK(empty->problems[0].code() == StatusCode::kIncomplete);
}

TEST_CASE("a verification ends between files, and callbacks may throw") {
  const TempDir dir;
  SaveRun(dir / "run");
  int asked = 0, files = 0;
  VerifyCheckpointOptions options;
  options.on_file = [&](const FileVerification&) { ++files; };
  options.cancelled = [&] { return ++asked == 2; };
  CHECK(VerifyCheckpoint(dir / "run", options).status().code() == StatusCode::kCancelled);
  CHECK(files == 1);
  options.on_file = [](const FileVerification&) { throw std::runtime_error("no more"); };
  CHECK(VerifyCheckpoint(dir / "run", options).status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("a checkpoint whose manifest is in parts is verified with them") {
  const TempDir dir;
  const std::string whole = dir / "whole";
  std::filesystem::copy(std::string(DSCKPT_SOURCE_DIR) + "/spec/conformance/valid/sharded-parts",
                        whole);
  const auto good = VerifyCheckpoint(whole);
  REQUIRE(good.status().ToString() == "Ok");
  CHECK(good->ok);
  CHECK(good->files.size() == 2);
  CHECK(good->ignored_entries.empty());
  const std::string part = whole + "/dsckpt.manifest.00001";
  std::string bytes = ReadWholeFile(part);
  bytes[bytes.size() / 2] ^= 1;
  WriteWholeFile(part, bytes);
  const auto bad = VerifyCheckpoint(whole);
  REQUIRE(bad.status().ToString() == "Ok");
  CHECK_FALSE(bad->ok);
  REQUIRE(bad->problems.size() == 1);
  CHECK(bad->problems[0].code() == StatusCode::kCorrupt);
  CHECK(bad->problems[0].path() == part);
  // A third part is none of this manifest's.
  std::filesystem::copy_file(part, whole + "/dsckpt.manifest.00002");
  bytes[bytes.size() / 2] ^= 1;
  WriteWholeFile(part, bytes);
  CHECK(VerifyCheckpoint(whole)->ignored_entries == Strings{whole + "/dsckpt.manifest.00002"});
}
