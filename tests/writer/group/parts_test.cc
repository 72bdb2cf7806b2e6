// Groups save checkpoints whose manifests are in parts.

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/limits.h"
#include "run/complete.h"
#include "run/manifest_file.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/writer/group/ranks.h"
#include "writer/group/publish.h"
#include "writer/group/retention.h"

using namespace dsckpt;
namespace fs = std::filesystem;

namespace {

constexpr int kTensors = 9;
// Of two shards: room for a few logical tensors a part, and not for nine.
constexpr uint64_t kLimit = 2000;

struct SmallManifests {
  explicit SmallManifests(uint64_t max_bytes = kLimit) { SetManifestLimit(max_bytes); }
  ~SmallManifests() { SetManifestLimit(kMaxManifestBytes); }
};

std::string Name(int tensor) { return "layer." + std::to_string(tensor) + ".weight"; }

/// Part `rank` of `size` of nine logical tensors; element by element its tensor and `value`.
class Layers {
 public:
  Layers(int rank, int size, float value, int tensors = kTensors) {
    const Range box[] = {{4 * rank, 4 * rank + 4}};
    const int64_t whole[] = {4 * size};
    values_.resize(static_cast<size_t>(tensors));
    for (int t = 0; t < tensors; ++t) {
      std::vector<float>& values = values_[static_cast<size_t>(t)];
      values.assign(4, value + static_cast<float>(100 * t));
      const std::string name = Name(t);
      const Piece piece{.logical_name = name, .logical_shape = whole, .box = box};
      state_.AddTensor(name, values.data(), DType::kF32, {4}, {.pieces = {&piece, 1}});
    }
  }
  const State& state() const { return state_; }

 private:
  std::vector<std::vector<float>> values_;
  State state_;
};

/// As one rank, which needs no group: shards "a" and "b".
Status SaveTwo(CheckpointWriter& writer, int64_t step, float value,
               const CheckpointSaveOptions& options = {}, int tensors = kTensors) {
  const Layers a(0, 2, value, tensors), b(1, 2, value, tensors);
  const ShardSource shards[] = {{"a", &a.state()}, {"b", &b.state()}};
  DSCKPT_ASSIGN_OR_RETURN(const auto handle, writer.Save(step, shards, options));
  return handle.WaitDurable();
}

std::vector<std::string> Parts(const std::string& directory) {
  std::vector<std::string> parts;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("dsckpt.manifest.")) parts.push_back(name);
  }
  std::sort(parts.begin(), parts.end());
  return parts;
}

/// Empty when the checkpoint holds `tensors` whole tensors of that value.
std::string WhyWrong(const std::string& directory, float value, int tensors = kTensors) {
  const auto checkpoint = Checkpoint::Open(directory);
  if (!checkpoint.ok()) return checkpoint.status().ToString();
  if (checkpoint->tensor_count() != static_cast<uint32_t>(tensors)) return "number of tensors";
  for (int t = 0; t < tensors; ++t) {
    const auto info = checkpoint->FindTensor(Name(t));
    if (!info.ok()) return info.status().ToString();
    std::vector<float> found(8);
    const Status read =
        checkpoint->ReadBytes(info->ordinal, 0, std::as_writable_bytes(std::span(found)), true);
    if (!read.ok()) return read.ToString();
    if (found != std::vector<float>(8, value + static_cast<float>(100 * t))) return Name(t);
  }
  return "";
}

struct Alone {
  TempDir dir;
  std::string run = dir / "run";
  std::unique_ptr<Engine> engine = SmallEngine();
  std::shared_ptr<CheckpointWriter> writer;

  explicit Alone(const Retention& retention = {}) {
    writer =
        CheckpointWriter::Create(*engine, {.run_directory = run, .retention = retention}).value();
  }
  std::string operator/(const std::string& name) const { return run + "/" + name; }
};

}  // namespace

TEST_CASE("parts: a checkpoint whose manifest is in several files is like any other") {
  const SmallManifests small;
  const Alone alone;
  REQUIRE(SaveTwo(*alone.writer, 7, 1).ToString() == "Ok");
  const std::string directory = alone / "step-0000000007";
  const auto parts = Parts(directory);
  REQUIRE(parts.size() >= 3);
  CHECK(parts[0] == "dsckpt.manifest.00000");
  CHECK(parts[2] == "dsckpt.manifest.00002");
  for (const std::string& part : parts) CHECK(fs::file_size(directory + "/" + part) <= kLimit);
  CHECK(WhyWrong(directory, 1) == "");
  const auto checkpoint = Checkpoint::Open(directory).value();
  CHECK(checkpoint.manifest_parts() == parts.size());
  CHECK(checkpoint.step() == 7);
  const auto complete = run::ReadComplete(alone.run, "step-0000000007");
  REQUIRE(complete.ok());
  CHECK(complete->parts == parts.size());
  CHECK(complete->serial == 1);
  CHECK(RunDirectory::Open(alone.run)->checkpoints().size() == 1);
  SetManifestLimit(kMaxManifestBytes);
  REQUIRE(SaveTwo(*alone.writer, 8, 2).ok());
  CHECK(Parts(alone / "step-0000000008").empty());
  CHECK(Checkpoint::Open(alone / "step-0000000008")->manifest_parts() == 0);
}

TEST_CASE("parts: what is wrong with a part is said") {
  const SmallManifests small;
  const Alone alone;
  // The first of a run has no parent, which takes fewer bytes.
  REQUIRE(SaveTwo(*alone.writer, 1, 1, {.name = "zero"}).ok());
  REQUIRE(SaveTwo(*alone.writer, 1, 1, {.name = "one"}).ok());
  REQUIRE(SaveTwo(*alone.writer, 1, 1, {.name = "two"}).ok());
  const std::string one = alone / "one/dsckpt.manifest.00001";
  const std::string other = alone / "two/dsckpt.manifest.00001";
  REQUIRE(fs::file_size(one) == fs::file_size(other));
  const std::string bytes = ReadWholeFile(one);
  const auto refused = [&](StatusCode code, const std::string& text) {
    const Status status = run::ReadManifest(alone / "one").status();
    INFO(status.ToString());
    CHECK(status.code() == code);
    CHECK(status.message().find(text) != std::string::npos);
    CHECK(status.path() == one);
  };
  fs::remove(one);
  refused(StatusCode::kIncomplete, "missing");
  CHECK_FALSE(run::ReadComplete(alone.run, "one").ok());
  fs::create_symlink(other, one);
  refused(StatusCode::kMismatch, "link");
  CHECK_FALSE(run::ReadComplete(alone.run, "one").ok());
  fs::remove(one);
  WriteWholeFile(one, bytes + "more");
  refused(StatusCode::kMismatch, "bytes: expected " + std::to_string(bytes.size()));
  CHECK_FALSE(run::ReadComplete(alone.run, "one").ok());
  WriteWholeFile(one, ReadWholeFile(other));
  refused(StatusCode::kMismatch, "checksum");
  std::string damaged = bytes;
  damaged[100] = static_cast<char>(damaged[100] ^ 1);
  WriteWholeFile(one, damaged);
  refused(StatusCode::kCorrupt, "checksum");
  WriteWholeFile(one, bytes);
  CHECK(WhyWrong(alone / "one", 1) == "");
}

TEST_CASE("parts: a logical tensor that no part can hold fails the save, and nothing is left") {
  const SmallManifests small(1500);
  const Alone alone;
  const Status status = SaveTwo(*alone.writer, 1, 1);
  INFO(status.ToString());
  CHECK(status.code() == StatusCode::kLimitExceeded);
  CHECK(status.message().find("layer.0.weight") != std::string::npos);
  CHECK(VisibleNames(alone.run).empty());
  CHECK(LeftOvers(alone.run).empty());
}

TEST_CASE("parts: replaced in place by fewer, by none, and by more") {
  const SmallManifests small;
  const Alone alone;
  const CheckpointSaveOptions options{.name = "tag", .replace = true, .in_place = true};
  fs::create_directories(alone / "tag");
  WriteWholeFile(alone / "tag/theirs", "x");
  size_t before = 0;
  for (const int tensors : {9, 6, 1, 9}) {
    INFO(tensors);
    REQUIRE(SaveTwo(*alone.writer, 1, 5, options, tensors).ToString() == "Ok");
    CHECK(WhyWrong(alone / "tag", 5, tensors) == "");
    const auto parts = Parts(alone / "tag");
    CHECK(parts.size() == Checkpoint::Open(alone / "tag")->manifest_parts());
    CHECK((tensors == 1) == parts.empty());
    if (tensors == 6) CHECK(parts.size() < before);
    before = parts.size();
  }
  CHECK(fs::exists(alone / "tag/theirs"));
  CHECK(LeftOvers(alone.run).empty());
}

TEST_CASE("parts: retention removes them with their manifest") {
  const SmallManifests small;
  const Alone alone({.keep_last = 1});
  REQUIRE(SaveTwo(*alone.writer, 1, 1).ok());
  REQUIRE(SaveTwo(*alone.writer, 2, 2).ok());
  CHECK(VisibleNames(alone.run) == std::vector<std::string>{"step-0000000002"});
  WriteWholeFile(alone / "step-0000000002/theirs", "x");
  REQUIRE(SaveTwo(*alone.writer, 3, 3).ok());
  // Where others have files, theirs alone stay.
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(alone / "step-0000000002")) {
    left.push_back(entry.path().filename().string());
  }
  CHECK(left == std::vector<std::string>{"theirs"});
  CHECK(WhyWrong(alone / "step-0000000003", 3) == "");
}

TEST_CASE("parts: no shard may have the name of one") {
  const Alone alone;
  const Layers part(0, 1, 1);
  const ShardSource shard{"dsckpt.manifest.00000", &part.state()};
  const Status status = alone.writer->Save(1, std::span(&shard, 1)).status();
  CHECK(status.code() == StatusCode::kInvalidArgument);
}

TEST_CASE("parts: rank 0 dies in place, and the move is finished with every part") {
  // Two shards, then the parts, one step each.
  for (const int moved : {0, 1, 2, 3, 4}) {
    INFO(moved);
    TempDir dir;
    const std::string run = dir / "run";
    Ranks ranks(1, [&](int) -> Status {
      SetManifestLimit(kLimit);
      RankRun rank{.run = run, .coordinate = {}};
      DSCKPT_RETURN_IF_ERROR(rank.Start());
      DSCKPT_RETURN_IF_ERROR(SaveTwo(*rank.writer, 1, 1, {.name = "tag", .in_place = true}));
      KillAt("moved", moved);
      return SaveTwo(*rank.writer, 2, 2, {.name = "tag", .replace = true, .in_place = true});
    });
    CHECK(ranks.Wait(0).killed);
    CHECK_FALSE(fs::exists(run + "/tag/dsckpt.manifest"));
    const auto engine = SmallEngine();
    REQUIRE(CheckpointWriter::Create(*engine, {.run_directory = run}).ok());
    CHECK(LeftOvers(run).empty());
    CHECK(WhyWrong(run + "/tag", 2) == "");
    CHECK(Parts(run + "/tag").size() == Checkpoint::Open(run + "/tag")->manifest_parts());
  }
}

TEST_CASE("parts: a move in place that lacks a part is not finished") {
  TempDir dir;
  const std::string run = dir / "run";
  Ranks ranks(1, [&](int) -> Status {
    SetManifestLimit(kLimit);
    RankRun rank{.run = run, .coordinate = {}};
    DSCKPT_RETURN_IF_ERROR(rank.Start());
    KillAt("moved");
    return SaveTwo(*rank.writer, 1, 1, {.name = "tag", .in_place = true});
  });
  CHECK(ranks.Wait(0).killed);
  for (const auto& entry : fs::recursive_directory_iterator(run + "/tag")) {
    if (entry.path().filename() == "dsckpt.manifest.00001") fs::resize_file(entry.path(), 100);
  }
  const auto engine = SmallEngine();
  REQUIRE(CheckpointWriter::Create(*engine, {.run_directory = run}).ok());
  CHECK(LeftOvers(run).empty());
  CHECK_FALSE(fs::exists(run + "/tag/dsckpt.manifest"));
}

TEST_CASE("parts: rank 0 of two dies at each of its steps, and what stands is whole") {
  for (const char* step : {"gathered", "manifest", "renamed", "synced", "latest"}) {
    INFO(step);
    TempDir dir;
    const auto group = [&](float value, bool dies) {
      Ranks ranks(2, [&](int rank) -> Status {
        SetManifestLimit(kLimit);
        RankRun run{.run = dir / "run", .coordinate = dir / "c", .rank = rank, .size = 2};
        run.timeout = std::chrono::seconds(dies ? 2 : 20);
        if (dies && rank == 0) KillAt(step);
        DSCKPT_RETURN_IF_ERROR(run.Start());
        const Layers layers(rank, 2, value);
        const CheckpointSaveOptions options{.name = "save", .replace = true};
        DSCKPT_ASSIGN_OR_RETURN(const auto handle, run.writer->Save(1, layers.state(), options));
        return handle.WaitDurable();
      });
      return ranks.WaitAll();
    };
    const auto ended = group(1, true);
    CHECK(ended[0].killed);
    const bool published =
        ended[1].code == StatusCode::kOk || ended[1].code == StatusCode::kDurabilityUnknown;
    CHECK(published == fs::exists(dir / "run/save/dsckpt.manifest"));
    if (published) CHECK(WhyWrong(dir / "run/save", 1) == "");
    for (const Ended& end : group(2, false)) CHECK(end.code == StatusCode::kOk);
    CHECK(LeftOvers(dir / "run").empty());
    CHECK(WhyWrong(dir / "run/save", 2) == "");
    CHECK(Checkpoint::Open(dir / "run/save")->manifest_parts() >= 3);
  }
}
