#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/checkpoint_writer.h"
#include "dsckpt/engine.h"
#include "tests/reader/checkpoint/job.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;
using job::Local;

namespace {

std::vector<std::byte> Floats(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

std::vector<float> FromBytes(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// A piece of f32 "w" that rank `rank` holds: rows [begin, end) of `columns`.
Local Rows(int64_t rows, int64_t columns, int64_t begin, int64_t end, float first) {
  std::vector<float> values(static_cast<size_t>((end - begin) * columns));
  std::iota(values.begin(), values.end(), first);
  Local local{"w", DType::kF32, {end - begin, columns}, {}, {}, Floats(values)};
  local.pieces.push_back(
      {.logical_name = "w", .logical_shape = {rows, columns}, .box = {{begin, end}, {0, columns}}});
  return local;
}

void Save(const std::string& path, std::vector<Local> locals) {
  const Status status = SaveFile(path, *job::Provider(locals), {},
                                 {.pool_bytes = kMiB, .workers = 1, .io = IoBackend::kThreads});
  INFO(status.ToString());
  REQUIRE(status.ok());
}

Result<Checkpoint> OpenAll(const std::vector<std::string>& paths) {
  return Checkpoint::OpenShards(paths);
}

struct Answer {
  Status status;
  std::vector<float> values;
};
Answer ReadWhole(const Checkpoint& checkpoint, const std::string& name) {
  const auto info = checkpoint.FindTensor(name);
  REQUIRE(info.ok());
  std::vector<std::byte> out(info->bytes);
  Answer answer;
  answer.status = checkpoint.Read({.name = name, .whole = true, .out = out});
  answer.values = FromBytes(out);
  return answer;
}

std::vector<float> Counting(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

}  // namespace

TEST_CASE("C38: the order of shards comes from their ranks, not from their names") {
  const TempDir dir;
  std::vector<std::string> paths;
  for (int64_t rank = 0; rank < 12; ++rank) {
    paths.push_back(dir / ("rank_" + std::to_string(rank)));
    Local local{"flat", DType::kF32, {1}, {}, {}, Floats({static_cast<float>(rank)})};
    local.pieces.push_back({.logical_name = "flat",
                            .logical_shape = {12},
                            .form = Piece::Form::kFlat,
                            .flat = {rank, rank + 1}});
    Save(paths.back(), {local});
  }
  const auto checkpoint = OpenAll(paths);
  REQUIRE(checkpoint.ok());
  CHECK(ReadWhole(*checkpoint, "flat").values == Counting(12));
}

TEST_CASE("C41: pieces of two dtypes or two shapes are refused, naming both sides") {
  const TempDir dir;
  Local a = Rows(8, 3, 0, 4, 0), b = Rows(8, 3, 4, 8, 12);
  SECTION("dtypes") {
    b.dtype = DType::kBF16;
    b.memory.resize(24);
  }
  SECTION("shapes") { b.pieces[0].logical_shape = {8, 4}; }
  Save(dir / "a", {a});
  Save(dir / "b", {b});
  const auto checkpoint = OpenAll({dir / "a", dir / "b"});
  REQUIRE(!checkpoint.ok());
  CHECK(checkpoint.status().code() == StatusCode::kMismatch);
  CHECK(checkpoint.status().message().find(dir / "a") != std::string::npos);
  CHECK(checkpoint.status().message().find(dir / "b") != std::string::npos);
}

TEST_CASE("C42: uneven and empty shards") {
  const TempDir dir;
  std::vector<std::string> paths;
  for (int64_t rank = 0; rank < 4; ++rank) {
    const std::vector<int64_t> shape{6, 2};
    const auto box = SplitBox(shape, 0, rank, 4);
    CHECK(box[0].end - box[0].begin == (rank < 3 ? 2 : 0));
    paths.push_back(dir / std::to_string(rank));
    Save(paths.back(), {Rows(6, 2, box[0].begin, box[0].end, static_cast<float>(rank * 4))});
  }
  const auto checkpoint = OpenAll(paths);
  REQUIRE(checkpoint.ok());
  CHECK(ReadWhole(*checkpoint, "w").values == Counting(12));
}

TEST_CASE("C43: gaps and differing copies are errors, equal copies fold") {
  const TempDir dir;
  const auto open = [&](std::vector<Local> locals) {
    std::vector<std::string> paths;
    for (size_t i = 0; i < locals.size(); ++i) {
      paths.push_back(dir / std::to_string(i));
      Save(paths.back(), {locals[i]});
    }
    return OpenAll(paths).value();
  };
  const auto undeclared = [](std::vector<float> values) {
    return Local{"weight", DType::kF32, {2}, {}, {}, Floats(values)};
  };
  SECTION("rank-specific tensors of one name") {
    const Checkpoint c = open({undeclared({0, 1}), undeclared({2, 3})});
    CHECK(ReadWhole(c, "weight").status.code() == StatusCode::kMismatch);
    CHECK(c.CompareCopies(0).code() == StatusCode::kMismatch);
  }
  SECTION("equal ones") {
    const Checkpoint c = open({undeclared({0, 1}), undeclared({0, 1})});
    CHECK(ReadWhole(c, "weight").values == Counting(2));
    CHECK(c.CompareCopies(0).ok());
  }
  SECTION("half of the rows") {
    const Checkpoint c = open({Rows(256, 256, 0, 128, 0)});
    const Status status = ReadWhole(c, "w").status;
    CHECK(status.code() == StatusCode::kIncomplete);
    CHECK(status.message().find("[128:256, 0:256]") != std::string::npos);
    CHECK(c.CheckCoverage(0).code() == StatusCode::kIncomplete);
    // What is there can be read.
    std::vector<std::byte> out(4);
    const Range box[] = {{127, 128}, {255, 256}};
    CHECK(c.Read({.name = "w", .box = box, .out = out}).ok());
  }
  SECTION("overlapping rows") {
    const bool equal = GENERATE(true, false);
    Local second = Rows(10, 2, 4, 10, 8);
    if (!equal) second.memory[4] ^= std::byte{1};  // row 4, column 1: in both
    const Checkpoint c = open({Rows(10, 2, 0, 6, 0), second});
    const Answer answer = ReadWhole(c, "w");
    CHECK(answer.status.code() == (equal ? StatusCode::kOk : StatusCode::kMismatch));
    CHECK(c.CompareCopies(0).ok() == equal);
    if (equal) CHECK(answer.values == Counting(20));
  }
  SECTION("a difference outside the overlap does not matter") {
    Local second = Rows(10, 2, 4, 10, 8);
    const Checkpoint c = open({Rows(10, 2, 0, 6, 0), second});
    CHECK(c.CheckCoverage(0).ok());
  }
  SECTION("declared replicas: loads take one, comparing finds the difference") {
    Local a = Rows(2, 2, 0, 2, 0), b = Rows(2, 2, 0, 2, 5);
    a.pieces[0].replica_group = b.pieces[0].replica_group = 7;
    const Checkpoint c = open({a, b});
    CHECK(ReadWhole(c, "w").values == Counting(4));
    CHECK(c.CompareCopies(0).code() == StatusCode::kMismatch);
  }
}

TEST_CASE("one slice touches only the shards that hold it") {
  const TempDir dir;
  std::vector<std::string> paths;
  for (int64_t rank = 0; rank < 64; ++rank) {
    paths.push_back(dir / std::to_string(rank));
    Save(paths.back(), {Rows(64, 8, rank, rank + 1, static_cast<float>(rank * 8))});
  }
  const auto checkpoint = OpenAll(paths);
  REQUIRE(checkpoint.ok());
  std::vector<std::byte> out(2 * 3 * 4);
  const Range box[] = {{10, 12}, {2, 5}};
  REQUIRE(checkpoint->Read({.name = "w", .box = box, .out = out}).ok());
  CHECK(FromBytes(out) == std::vector<float>{82, 83, 84, 90, 91, 92});
}

TEST_CASE("one stored tensor as a flat buffer and as the parameters it holds") {
  const TempDir dir;
  Local buffer{"flat", DType::kF32, {8}, {}, {}, Floats(Counting(8))};
  buffer.pieces = {
      {.logical_name = "flat", .logical_shape = {8}, .box = {{0, 8}}},
      {.logical_name = "a", .logical_shape = {2, 2}, .form = Piece::Form::kFlat, .flat = {0, 4}},
      {.logical_name = "b", .logical_shape = {3}, .box = {{0, 3}}, .element_offset = 4}};
  Save(dir / "s", {buffer});
  const auto checkpoint = Checkpoint::Open(dir / "s");
  REQUIRE(checkpoint.ok());
  CHECK(checkpoint->tensor_count() == 3);
  CHECK(ReadWhole(*checkpoint, "flat").values == Counting(8));
  CHECK(ReadWhole(*checkpoint, "a").values == Counting(4));
  CHECK(ReadWhole(*checkpoint, "b").values == std::vector<float>{4, 5, 6});
}

TEST_CASE("going through a tensor in steps") {
  const TempDir dir;
  // Columns of a matrix with rows longer than a chunk, from three shards of different encodings.
  const int64_t rows = 5, columns = 3 * 700'001;
  std::vector<std::string> paths;
  std::vector<float> whole(static_cast<size_t>(rows * columns));
  for (size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<float>(i % 1'000'003);
  for (int64_t rank = 0; rank < 3; ++rank) {
    const int64_t begin = rank * columns / 3, end = (rank + 1) * columns / 3;
    std::vector<float> part;
    for (int64_t row = 0; row < rows; ++row) {
      part.insert(part.end(), whole.begin() + row * columns + begin,
                  whole.begin() + row * columns + end);
    }
    const OwnedPiece piece{
        .logical_name = "w", .logical_shape = {rows, columns}, .box = {{0, rows}, {begin, end}}};
    const Piece view = piece.view();
    const int64_t shape[] = {rows, end - begin};
    const auto provider = MakeProvider([&](Description& d) {
      TensorSource source;
      source.data = part.data();
      source.dtype = DType::kF32;
      source.shape = shape;
      source.encoding = rank == 1 ? Encoding::kZstd : Encoding::kRaw;
      source.pieces = std::span(&view, 1);
      d.Tensor("w", source);
    });
    paths.push_back(dir / std::to_string(rank));
    REQUIRE(SaveFile(paths.back(), *provider).ok());
  }
  const auto checkpoint = OpenAll(paths);
  REQUIRE(checkpoint.ok());
  const std::vector<std::byte> expected = Floats(whole);
  std::vector<std::byte> out(expected.size());
  for (size_t step : {size_t{4} << 20, size_t{12'345'676}}) {
    std::fill(out.begin(), out.end(), std::byte{});
    for (size_t at = 0; at < out.size(); at += step) {
      const auto part = std::span(out).subspan(at, std::min(step, out.size() - at));
      REQUIRE(checkpoint->ReadBytes(0, at, part).ok());
    }
    CHECK((out == expected));
  }
  CHECK(checkpoint->ReadBytes(0, out.size() - 2, std::span(out).first(4)).code() ==
        StatusCode::kInvalidArgument);
  // A flipped bit in what a step needs is found.
  std::string bytes = ReadWholeFile(paths[2]);
  bytes[File::Open(paths[2])->tensor(0).offset + 100] ^= 1;
  WriteWholeFile(paths[2], bytes);
  const auto broken = OpenAll(paths);
  REQUIRE(broken.ok());
  CHECK(broken->ReadBytes(0, 0, out).code() == StatusCode::kCorrupt);
}

TEST_CASE("sub-byte tensors whose rows are no whole bytes: flat ranges, boxes without gaps") {
  const TempDir dir;
  std::vector<std::string> paths;
  for (int64_t rank = 0; rank < 3; ++rank) {
    paths.push_back(dir / std::to_string(rank));
    Local local{"part", DType::kF4, {2}, {}, {}, {static_cast<std::byte>(0x21 + rank * 0x22)}};
    local.pieces.push_back({.logical_name = "w",
                            .logical_shape = {2, 3},
                            .form = Piece::Form::kFlat,
                            .flat = {2 * rank, 2 * rank + 2}});
    Save(paths.back(), {local});
  }
  const auto checkpoint = OpenAll(paths);
  REQUIRE(checkpoint.ok());
  CHECK(checkpoint->CheckCoverage(0).ok());
  CHECK(checkpoint->CompareCopies(0).ok());
  const std::vector<std::byte> all{std::byte{0x21}, std::byte{0x43}, std::byte{0x65}};
  std::vector<std::byte> out(3);
  const Status whole = checkpoint->Read({.name = "w", .whole = true, .out = out});
  INFO(whole.ToString());
  CHECK(whole.ok());
  CHECK((out == all));
  const Range box[] = {{0, 2}, {0, 3}};
  std::fill(out.begin(), out.end(), std::byte{});
  CHECK(checkpoint->Read({.name = "w", .box = box, .out = out}).ok());
  CHECK((out == all));
  std::byte one{};
  CHECK(checkpoint->ReadBytes(0, 1, std::span(&one, 1)).ok());
  CHECK(one == all[1]);
  const Range row[] = {{1, 2}, {0, 3}};
  CHECK(checkpoint->Read({.name = "w", .box = row, .out = std::span(&one, 1)}).code() ==
        StatusCode::kInvalidArgument);
  const Range outside[] = {{0, 3}, {0, 3}};
  CHECK(checkpoint->Read({.name = "w", .box = outside, .out = out}).code() ==
        StatusCode::kInvalidArgument);
  std::vector<Local> back{{"w", DType::kF4, {2, 3}, {}, {}, std::vector<std::byte>(3)}};
  CHECK(checkpoint->Restore(*job::Provider(back)).ok());
  CHECK((back[0].memory == all));
}

TEST_CASE("ReadBytes: any byte range, also inside a block of elements") {
  const TempDir dir;
  std::vector<std::byte> bytes(12);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 17);
  Save(dir / "a", {Local{"w", DType::kF6E2M3, {4, 4}, {}, {}, bytes}});
  const auto checkpoint = Checkpoint::Open(dir / "a");
  REQUIRE(checkpoint.ok());
  for (size_t begin = 0; begin <= bytes.size(); ++begin) {
    for (size_t end = begin; end <= bytes.size(); ++end) {
      std::vector<std::byte> out(end - begin);
      REQUIRE(checkpoint->ReadBytes(0, begin, out).ok());
      CHECK(std::equal(out.begin(), out.end(), bytes.begin() + static_cast<std::ptrdiff_t>(begin)));
    }
  }
}

TEST_CASE("ReadBytes: what one caller read unchecked is checked for the next") {
  const TempDir dir;
  Save(dir / "a", {Rows(4, 4, 0, 4, 0)});
  const auto file = File::Open(dir / "a");
  REQUIRE(file.ok());
  std::string image = ReadWholeFile(dir / "a");
  image[file->tensor(0).offset] ^= 1;
  WriteWholeFile(dir / "a", image);
  const auto checkpoint = Checkpoint::Open(dir / "a");
  REQUIRE(checkpoint.ok());
  std::vector<std::byte> out(64);
  CHECK(checkpoint->ReadBytes(0, 0, out, false).ok());
  CHECK(checkpoint->ReadBytes(0, 0, out, true).code() == StatusCode::kCorrupt);
}

TEST_CASE("a slice opens only the shards that hold it, of 64") {
  const TempDir dir;
  std::vector<std::unique_ptr<StateProvider>> providers;
  std::vector<ShardSource> sources;
  std::vector<std::vector<Local>> locals(64);
  for (int64_t i = 0; i < 64; ++i) {
    auto& mine = locals[static_cast<size_t>(i)];
    mine = {Rows(256, 2, 4 * i, 4 * i + 4, static_cast<float>(8 * i))};
    providers.push_back(job::Provider(mine));
    sources.push_back({"s" + std::to_string(i), providers.back().get()});
  }
  {
    const auto engine = Engine::Create({.pool_bytes = kMiB});
    REQUIRE(engine.ok());
    const auto writer = CheckpointWriter::Create(**engine, {.run_directory = dir.path()});
    REQUIRE(writer.ok());
    const auto handle = (*writer)->Save(1, sources, {.name = "c"});
    REQUIRE(handle.ok());
    REQUIRE(handle->WaitDurable().ok());
  }
  const auto checkpoint = Checkpoint::Open(dir / "c");
  REQUIRE(checkpoint.ok());
  CHECK(checkpoint->open_shard_count() == 0);
  std::vector<std::byte> out(size_t{6} * 4);
  const Range box[] = {{101, 107}, {1, 2}};  // Rows of shards 25 and 26.
  REQUIRE(checkpoint->Read({.name = "w", .box = box, .out = out}).ok());
  CHECK(FromBytes(out) == std::vector<float>{203, 205, 207, 209, 211, 213});
  CHECK(checkpoint->open_shard_count() == 2);
}

namespace {

/// Lowers the limit of open descriptors to `more` than there are now.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t more) {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(std::distance(begin(all), end(all))) + more;
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_;
};

}  // namespace

TEST_CASE("a checkpoint of more shards than the process may open files") {
  constexpr int64_t kShards = 300;
  const TempDir dir;
  std::vector<std::string> paths;
  std::vector<float> expected;
  for (int64_t i = 0; i < kShards; ++i) {
    std::vector<Local> mine = {Rows(kShards, 2, i, i + 1, static_cast<float>(2 * i))};
    paths.push_back(dir / std::to_string(i));
    REQUIRE(SaveFile(paths.back(), *job::Provider(mine), {}, {.pool_bytes = kMiB}).ok());
    for (int64_t k = 0; k < 2; ++k) expected.push_back(static_cast<float>(2 * i + k));
  }
  const FewDescriptors few(200);
  const auto checkpoint = Checkpoint::OpenShards(paths).value();
  // A user may hold all files; mapped ones take no descriptors until they are read.
  std::vector<File> files;
  for (uint32_t i = 0; i < kShards; ++i) files.push_back(checkpoint.OpenShard(i).value());
  std::vector<std::byte> out(expected.size() * sizeof(float));
  for (int round = 0; round < 2; ++round) {
    REQUIRE(checkpoint.Read({.name = "w", .whole = true, .out = out}).ToString() == "Ok");
    CHECK(FromBytes(out) == expected);
    for (size_t i = 0; i < files.size(); ++i) {
      const TensorInfo info = files[i].tensor(0);
      std::vector<std::byte> row(info.raw_bytes);
      const LoadRequest request{.name = info.name, .data = row.data(), .bytes = row.size()};
      REQUIRE(files[i].Load(std::span(&request, 1)).ToString() == "Ok");
      CHECK(FromBytes(row)[0] == expected[2 * i]);
    }
  }
}
