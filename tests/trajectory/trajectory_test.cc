// Trajectory: what it opens, in which order, and what it says from indexes.

#include "dsckpt/trajectory.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "dsckpt/operand.h"
#include "dsckpt/trajectory_events.h"
#include "merge/inputs.h"
#include "tests/support/catch.h"
#include "tests/support/planted_run.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;
namespace fs = std::filesystem;
using Strings = std::vector<std::string>;

namespace {

void SaveOne(const std::string& path, int64_t step, float value) {
  fs::create_directories(fs::path(path).parent_path());
  planted::Save(path, {{"x", {2, 2}, std::vector<float>(4, value)}}, step);
}

/// A plain file with the tensor "x", which says no step itself.
void SavePlain(const std::string& path, float value) {
  fs::create_directories(fs::path(path).parent_path());
  const std::vector<float> values(4, value);
  const auto provider = MakeProvider([&](Description& description) {
    const std::vector<int64_t> shape = {4};
    TensorSource source;
    source.data = values.data();
    source.dtype = DType::kF32;
    source.shape = shape;
    description.Tensor("x", source);
  });
  SaveOptions options;
  options.container = Container::kSafetensors;
  REQUIRE(SaveFile(path, *provider, options).ok());
}

size_t OpenDescriptors() {
  const fs::directory_iterator entries("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(entries), end(entries)));
}

/// Half of a tensor of the logical shape [4]: two elements, from `begin` on.
std::unique_ptr<StateProvider> Half(const std::vector<float>& values, int64_t begin) {
  return MakeProvider([&values, begin](Description& description) {
    const std::vector<int64_t> shape = {2}, whole = {4};
    const std::vector<Range> box = {{begin, begin + 2}};
    const Piece piece{.logical_name = "w", .logical_shape = whole, .box = box};
    TensorSource source;
    source.data = values.data();
    source.dtype = DType::kF32;
    source.shape = shape;
    source.pieces = std::span(&piece, 1);
    description.Tensor("w", source);
  });
}

/// A checkpoint of two files, each with half of "w".
void SaveInTwo(CheckpointWriter& writer, int64_t step, float value) {
  const std::vector<float> low(2, value), high(2, value + 1);
  const auto first = Half(low, 0), second = Half(high, 2);
  const std::vector<ShardSource> shards = {{"a.dsckpt", first.get()}, {"b.dsckpt", second.get()}};
  const auto handle = writer.Save(step, shards);
  INFO(handle.status().ToString());
  REQUIRE(handle.ok());
  REQUIRE(handle->WaitDurable().ok());
}

std::vector<std::optional<int64_t>> StepsOf(const Trajectory& run) {
  std::vector<std::optional<int64_t>> steps;
  for (uint32_t t = 0; t < run.size(); ++t) steps.push_back(run.step(t));
  return steps;
}

}  // namespace

TEST_CASE("trajectory: a run in the order of its steps, from indexes alone") {
  TempDir dir;
  planted::WriteRun(dir / "run");
  const auto run = Trajectory::Open(dir / "run");
  INFO(run.status().ToString());
  REQUIRE(run.ok());
  const auto steps = planted::Steps();
  REQUIRE(run->size() == steps.size());
  for (uint32_t t = 0; t < run->size(); ++t) {
    CHECK(run->step(t) == steps[t]);
    CHECK(run->step_source(t) == StepSource::kAttribute);
    CHECK(run->operand(t) == (dir / "run") + "@" + std::to_string(steps[t]));
  }
  CHECK(run->tensor_count() == 12);
  CHECK(run->skipped().empty());
  const auto frozen = run->FindTensor(planted::kFrozen);
  REQUIRE(frozen);
  CHECK(run->tensor(*frozen).checkpoints == steps.size());
  CHECK(run->tensor(*frozen).forms == 1);
  CHECK(run->tensor(*frozen).dtype.name == "F32");
  CHECK(run->Digest(0, *frozen).has_value());
  CHECK(run->Digest(0, *frozen) == run->Digest(20, *frozen));
  const auto file = File::Open(run->path(3));
  REQUIRE(file.ok());
  for (uint32_t i = 0; i < run->tensor_count(); ++i) {
    const auto info = file->FindTensor(run->tensor(i).name);
    CHECK(run->Digest(3, i) == file->Digest(*info));
    CHECK(run->Statistics(3, i)->sum_squares == file->Statistics(*info)->sum_squares);
  }
  CHECK(run->attributes(0)[0].first == "loss");
  CHECK(std::get<double>(run->attributes(0)[0].second) == 10.0);
}

TEST_CASE("trajectory: reads and views the elements of one checkpoint") {
  TempDir dir;
  for (const int step : {1, 2, 3}) {
    SaveOne(dir / ("run/step" + std::to_string(step)), step, static_cast<float>(step));
  }
  TrajectoryOptions options;
  options.max_open_files = 1;
  const auto run = Trajectory::Open(dir / "run", options);
  REQUIRE(run.ok());
  const uint32_t x = *run->FindTensor("x");
  for (uint32_t t = 0; t < 3; ++t) {
    const float expected = static_cast<float>(t + 1);
    float value = 0;
    REQUIRE(run->Read(t, x, 8, std::as_writable_bytes(std::span(&value, 1))).ok());
    CHECK(value == expected);
    const auto view = run->View(t, x);
    REQUIRE(view.ok());
    CHECK(view->mapped());
    CHECK(view->As<float>().value()[3] == expected);
  }
}

TEST_CASE("trajectory: no more files are open than were allowed") {
  TempDir dir;
  planted::WriteRun(dir / "run");
  TrajectoryOptions options;
  options.max_open_files = 6;
  const size_t before = OpenDescriptors();
  const auto run = Trajectory::Open(dir / "run", options);
  REQUIRE(run.ok());
  CHECK(OpenDescriptors() == before);
  float value = 0;
  const auto out = std::as_writable_bytes(std::span(&value, 1));
  for (uint32_t t = 0; t < run->size(); ++t) {
    REQUIRE(run->Read(t, 0, 0, out.first(1)).ok());
    REQUIRE(run->OpenCheckpoint(t)->ReadBytes(0, 0, out.first(1)).ok());
    CHECK(OpenDescriptors() <= before + 6);
  }
  CHECK(OpenDescriptors() == before + 6);
}

TEST_CASE("trajectory: whatever wrote them, with the steps that names say") {
  TempDir dir;
  SavePlain(dir / "run/step20.safetensors", 1);
  SavePlain(dir / "run/checkpoint-5/model.safetensors", 2);
  SavePlain(dir / "run/global_step3.safetensors", 3);
  SavePlain(dir / "run/final.safetensors", 4);
  SaveOne(dir / "run/a.dsckpt", 7, 5);
  fs::create_directories(dir / "run/step-9.incomplete-1");
  std::ofstream(dir / "run/log.txt") << "no checkpoint";
  const auto run = Trajectory::Open(dir / "run");
  INFO(run.status().ToString());
  REQUIRE(run.ok());
  CHECK(StepsOf(*run) == std::vector<std::optional<int64_t>>{3, 5, 7, 20, std::nullopt});
  CHECK(run->step_source(1) == StepSource::kName);
  CHECK(run->operand(4) == dir / "run/final.safetensors");
  CHECK_FALSE(run->Digest(0, 0).has_value());
  CHECK(run->tensor(*run->FindTensor("x")).forms == 2);
  REQUIRE(run->skipped().size() == 2);
  CHECK(run->skipped()[0].first == dir / "run/log.txt");
  CHECK(run->skipped()[1].first == dir / "run/step-9.incomplete-1");
}

TEST_CASE("trajectory: the caller says where steps stand") {
  TempDir dir;
  SavePlain(dir / "run/a-b7-x3.safetensors", 1);
  SavePlain(dir / "run/a-b5-x4.safetensors", 2);
  TrajectoryOptions options;
  options.step_from = "name:x([0-9]+)";
  const auto by_name = Trajectory::Open(dir / "run", options);
  INFO(by_name.status().ToString());
  REQUIRE(by_name.ok());
  CHECK(StepsOf(*by_name) == std::vector<std::optional<int64_t>>{3, 4});
  options.step_from = "attr:epoch";
  CHECK(StepsOf(*Trajectory::Open(dir / "run", options)) ==
        std::vector<std::optional<int64_t>>{std::nullopt, std::nullopt});
  options.step_from = "file:x";
  CHECK(Trajectory::Open(dir / "run", options).status().code() == StatusCode::kInvalidArgument);
  const Strings paths = {dir / "run/a-b7-x3.safetensors", dir / "run/a-b5-x4.safetensors"};
  const std::vector<int64_t> steps = {2, 1};
  const auto given = Trajectory::Open(paths, steps);
  REQUIRE(given.ok());
  CHECK(given->path(0) == paths[1]);
  CHECK(given->step(1) == 2);
}

TEST_CASE("trajectory: what is named has to open, and what lies in a run need not") {
  TempDir dir;
  SaveOne(dir / "run/step1", 1, 1);
  SaveOne(dir / "run/step2", 2, 1);
  fs::resize_file(dir / "run/step2", 100);
  const auto run = Trajectory::Open(dir / "run");
  REQUIRE(run.ok());
  CHECK(run->size() == 1);
  REQUIRE(run->skipped().size() == 1);
  CHECK(run->skipped()[0].first == dir / "run/step2");
  const Strings both = {dir / "run/step1", dir / "run/step2"};
  CHECK_FALSE(Trajectory::Open(both).ok());
  fs::remove(dir / "run/step1");
  CHECK(Trajectory::Open(dir / "run").status().code() == StatusCode::kNotFound);
}

TEST_CASE("trajectory: tensors in pieces are compared piece by piece") {
  TempDir dir;
  const std::string path = dir / "run";
  {
    const auto engine = Engine::Create({.pool_bytes = kMiB});
    REQUIRE(engine.ok());
    const auto writer = CheckpointWriter::Create(**engine, {.run_directory = path});
    REQUIRE(writer.ok());
    SaveInTwo(**writer, 1, 1);
    SaveInTwo(**writer, 2, 1);
    SaveInTwo(**writer, 3, 5);
  }
  const auto run = Trajectory::Open(path);
  INFO(run.status().ToString());
  REQUIRE(run.ok());
  CHECK(StepsOf(*run) == std::vector<std::optional<int64_t>>{1, 2, 3});
  CHECK(run->step_source(0) == StepSource::kManifest);
  const uint32_t w = *run->FindTensor("w");
  CHECK_FALSE(run->Digest(0, w).has_value());
  CHECK_FALSE(run->TreeDigest(0).has_value());
  REQUIRE(run->Content(0, w).has_value());
  CHECK(run->Content(0, w) == run->Content(1, w));
  CHECK(run->Content(0, w) != run->Content(2, w));
  CHECK(run->StoredDigest(0).has_value());
  CHECK(run->StoredDigest(0) == run->StoredDigest(1));
  CHECK(run->StoredDigest(0) != run->StoredDigest(2));
  CHECK(run->View(0, w).status().code() == StatusCode::kUnsupported);
  std::vector<float> values(4);
  REQUIRE(run->Read(2, w, 0, std::as_writable_bytes(std::span(values))).ok());
  CHECK(values == std::vector<float>{5, 5, 6, 6});
  const auto events = FindEvents(*run, SelectAll(*run));
  REQUIRE(events.size() == 1);
  CHECK(events[0].kind == TrajectoryEventKind::kDuplicate);
  CHECK(events[0].checkpoint == 1);
  CHECK(events[0].other == 0u);
}

TEST_CASE("trajectory: what a roll back left behind is left out") {
  TempDir dir;
  const std::string path = dir / "run";
  {
    const auto engine = Engine::Create({.pool_bytes = kMiB});
    REQUIRE(engine.ok());
    const auto writer = CheckpointWriter::Create(**engine, {.run_directory = path});
    REQUIRE(writer.ok());
    for (const int step : {1, 2, 3}) SaveInTwo(**writer, step, static_cast<float>(step));
  }
  REQUIRE(RollBack(path, 2).ok());
  const auto run = Trajectory::Open(path);
  REQUIRE(run.ok());
  CHECK(StepsOf(*run) == std::vector<std::optional<int64_t>>{1, 2});
  REQUIRE(run->skipped().size() == 1);
  CHECK(run->skipped()[0].second.starts_with("abandoned"));
  CHECK(merge::ToOperand(path + "@-1")->path == path + "/step-0000000002");
  CHECK(merge::ToOperand(path + "@3")->path == path + "/step-0000000003");
}

TEST_CASE("operands: a checkpoint of a run by its step, from the end, and the latest") {
  TempDir dir;
  const std::string run = dir / "run";
  for (const int step : {0, 5, 10}) {
    SaveOne(run + "/step" + std::to_string(step), step, static_cast<float>(step));
  }
  const auto path = [&](const std::string& choice) {
    const auto operand = merge::ToOperand(run + "@" + choice);
    const auto found = FindCheckpoint(run + "@" + choice);
    CHECK(found.status().message() == operand.status().message());
    if (!operand.ok()) return operand.status().message();
    CHECK(*found == operand->path);
    return operand->path.substr(run.size());
  };
  CHECK(path("5") == "/step5");
  CHECK(path("0") == "/step0");
  CHECK(path("latest") == "/step10");
  CHECK(path("-1") == "/step10");
  CHECK(path("-3") == "/step0");
  CHECK(path("7").find("next to it are 5 and 10") != std::string::npos);
  CHECK(path("11").find("next to it is 10 (") != std::string::npos);
  CHECK(path("-4").find("has 3 complete checkpoints") != std::string::npos);
  CHECK(path("newest").find("behind @ stands a step") != std::string::npos);
  SavePlain(dir / "model/model.safetensors", 1);
  const auto model = merge::ToOperand(dir / "model@5");
  CHECK(model.status().code() == StatusCode::kInvalidArgument);
  CHECK(model.status().message().ends_with(
      "is one checkpoint or model and no run: give it without @5"));
  std::ofstream(run + "@5") << "a file of this name";
  CHECK(path("5") == "@5");
  CHECK(OpenCheckpoint(run + "@10")->step() == 10);
  CHECK(OpenCheckpoint(dir / "model")->tensor_count() == 1);
  CHECK(OpenCheckpoint(run)->step() == 10);
  CHECK(*FindCheckpoint(run) == run);
}
