#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/checkpoint_writer.h"
#include "dsckpt/engine.h"
#include "dsckpt/state.h"
#include "dsckpt/verify.h"
#include "io/syscalls.h"
#include "tests/reader/checkpoint/job.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

// What readers of a checkpoint believe, and what that costs them.

using namespace dsckpt;
using job::Local;

namespace {

const EngineOptions kSmall = {.pool_bytes = 4 * kMiB, .workers = 1, .io = IoBackend::kThreads};

std::vector<std::byte> Floats(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

/// A shard with one stored F32 tensor and these pieces of it.
Result<Checkpoint> OpenOne(const TempDir& dir, const std::vector<float>& values,
                           std::vector<OwnedPiece> pieces) {
  std::vector<Local> locals(1);
  locals[0].name = "stored";
  locals[0].dtype = DType::kF32;
  locals[0].shape = {static_cast<int64_t>(values.size())};
  locals[0].pieces = std::move(pieces);
  locals[0].memory = Floats(values);
  DSCKPT_RETURN_IF_ERROR(SaveFile(dir / "shard", *job::Provider(locals), {}, kSmall));
  return Checkpoint::Open(dir / "shard");
}

OwnedPiece Flat(int64_t size, int64_t begin, int64_t end, uint64_t offset) {
  return {.logical_name = "w",
          .logical_shape = {size},
          .form = Piece::Form::kFlat,
          .flat = {begin, end},
          .element_offset = offset};
}

std::vector<float> Counting(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

uint64_t read_bytes = 0;
ssize_t CountingPread(int fd, void* data, size_t bytes, off_t offset) {
  const ssize_t done = io::RealSyscalls().pread(fd, data, bytes, offset);
  if (done > 0) read_bytes += static_cast<uint64_t>(done);
  return done;
}

}  // namespace

TEST_CASE("what is no manifest is not read, whatever its size") {
  const TempDir dir;
  const std::string path = dir / "dsckpt.manifest";
  std::ofstream(path).close();
  std::filesystem::resize_file(path, kGiB);
  io::Syscalls counting = io::RealSyscalls();
  counting.pread = CountingPread;
  read_bytes = 0;
  const io::Syscalls* const before = io::ReplaceSyscalls(&counting);
  const Status status = Checkpoint::Open(dir.path()).status();
  io::ReplaceSyscalls(before);
  CHECK(status.code() == StatusCode::kNotCheckpoint);
  CHECK(status.path() == path);
  CHECK(read_bytes <= 128);
  std::filesystem::resize_file(path, kGiB + 8);
  CHECK(Checkpoint::Open(dir.path()).status().code() == StatusCode::kCorrupt);
}

TEST_CASE("nested pieces of one tensor: compared in linear time, and read") {
  constexpr int64_t kPieces = 2000, kSize = 2 * kPieces;
  const std::vector<float> values = Counting(kSize);
  std::vector<OwnedPiece> pieces;
  for (int64_t i = 0; i < kPieces; ++i) {
    pieces.push_back(Flat(kSize, i, kSize - i, static_cast<uint64_t>(i)));
  }
  SECTION("equal") {
    const TempDir dir;
    const auto checkpoint = OpenOne(dir, values, pieces);
    REQUIRE(checkpoint.status().ToString() == "Ok");
    CHECK(checkpoint->CheckCoverage(0).ok());
    CHECK(checkpoint->CompareCopies(0).ToString() == "Ok");
    std::vector<float> out(kSize);
    const auto bytes = std::as_writable_bytes(std::span(out));
    CHECK(checkpoint->Read({.name = "w", .whole = true, .out = bytes}).ToString() == "Ok");
    CHECK(out == values);
  }
  SECTION("one of them says another value") {
    const TempDir dir;
    pieces[1234].element_offset += 1;
    const auto checkpoint = OpenOne(dir, values, pieces);
    REQUIRE(checkpoint.status().ToString() == "Ok");
    CHECK(checkpoint->CheckCoverage(0).ok());
    CHECK(checkpoint->CompareCopies(0).code() == StatusCode::kMismatch);
    std::vector<float> out(kSize);
    const auto bytes = std::as_writable_bytes(std::span(out));
    const Status status = checkpoint->Read({.name = "w", .whole = true, .out = bytes});
    CHECK(status.code() == StatusCode::kMismatch);
    CHECK(status.message().find("elements [1234:1235]") != std::string::npos);
  }
}

TEST_CASE("pieces that overlap in a packed dtype are compared block by block") {
  const TempDir dir;
  for (const bool equal : {true, false}) {
    // Eight F4 elements, once whole and once their middle four.
    std::vector<std::byte> bytes = {std::byte{1}, std::byte{2}, std::byte{3},
                                    std::byte{4}, std::byte{2}, std::byte{3}};
    if (!equal) bytes[5] = std::byte{7};
    std::vector<Local> locals = {
        {"stored", DType::kF4, {12}, {Flat(8, 0, 8, 0), Flat(8, 2, 6, 8)}, {}, bytes}};
    const std::string path = dir / (equal ? "equal" : "other");
    REQUIRE(SaveFile(path, *job::Provider(locals), {}, kSmall).ok());
    const auto checkpoint = Checkpoint::Open(path);
    REQUIRE(checkpoint.ok());
    const Status status = checkpoint->CompareCopies(0);
    CHECK(status.ok() == equal);
    if (!equal) CHECK(status.message().find("elements [4:6]") != std::string::npos);
  }
}

TEST_CASE("a state with nothing in it is a file, and a checkpoint") {
  const TempDir dir;
  const auto nothing = MakeProvider([](Description& d) { d.Flat(); });
  REQUIRE(SaveFile(dir / "one", *nothing, {}, kSmall).ToString() == "Ok");
  const auto file = File::Open(dir / "one");
  REQUIRE(file.status().ToString() == "Ok");
  CHECK(file->tensor_count() == 0);
  CHECK(!file->tree());
  CHECK(!file->attributes());
  CHECK(Verify(dir / "one")->ok);

  const auto engine = Engine::Create(kSmall).value();
  const auto writer = CheckpointWriter::Create(*engine, {.run_directory = dir / "run"}).value();
  REQUIRE(writer->Save(1, *nothing).ok());
  REQUIRE(writer->WaitDurable().ToString() == "Ok");
  const auto checkpoint = RunDirectory::Open(dir / "run")->Latest();
  REQUIRE(checkpoint.status().ToString() == "Ok");
  CHECK(checkpoint->tensor_count() == 0);
  CHECK(checkpoint->OpenShard(0).status().ToString() == "Ok");
}

TEST_CASE("a checkpoint of one step with shards of another is not written") {
  const TempDir dir;
  int64_t step = 7;
  State state;
  state.AddAttribute("step", &step);
  const auto engine = Engine::Create(kSmall).value();
  const auto writer = CheckpointWriter::Create(*engine, {.run_directory = dir / "run"}).value();
  const Status status = writer->Save(8, state).status();  // Before anything is written.
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK(status.message().find("'step' is 7") != std::string::npos);
  REQUIRE(writer->Save(7, state).ok());
  CHECK(writer->WaitDurable().ToString() == "Ok");
}

TEST_CASE("where the hash is not known, bytes say what ranks share") {
  const Checkpoint checkpoint = Checkpoint::Open(std::string(DSCKPT_SOURCE_DIR) +
                                                 "/spec/conformance/valid/other-hash-sharded")
                                    .value();
  std::array<char, 6> config{}, rng{};
  State state;
  state.AddBytes("config", config.data(), config.size());
  state.AddBytes("rng", rng.data(), rng.size());
  const auto text = [](const auto& bytes) { return std::string(bytes.data(), bytes.size()); };
  REQUIRE(checkpoint.Restore(state, 1).ToString() == "Ok");
  CHECK(text(config) == "of all");
  CHECK(text(rng) == "rank 1");
  rng = {};
  // Rank 2 wrote nothing.
  const Status refused = checkpoint.Restore(state, 2);
  CHECK(refused.code() == StatusCode::kNotFound);
  CHECK(refused.message().find("'rng' differs from rank to rank") != std::string::npos);
  CHECK(refused.message().find("config") == std::string::npos);
  config = {};
  REQUIRE(checkpoint.Restore(state, 2, {.partial = true}).ToString() == "Ok");
  CHECK(text(config) == "of all");
  CHECK(rng == std::array<char, 6>{});
}
