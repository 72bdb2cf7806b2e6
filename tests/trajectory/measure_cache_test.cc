// MeasureCache: what is put in comes out, bit for bit, also through a file; files of others are
// refused by line.

#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "dsckpt/dsckpt.h"
#include "tests/support/catch.h"
#include "tests/support/fault_fs.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;

namespace {

const std::string kA(32, 'a'), kB(32, 'b'), kC(32, 'c');
const std::string kPlain = "runs/\"a\"/step-1 {x}.safetensors 512 17 \xff";

MeasureCache::Moments SomeMoments() {
  MeasureCache::Moments some;
  some.moments = {.count = 1ull << 60,
                  .nan = 3,
                  .inf = 1,
                  .zero = 7,
                  .min = -0.0,
                  .max = 1e23,
                  .mean = 0.1,
                  .squared_deviations = std::numeric_limits<double>::infinity()};
  some.first_nan = (1ull << 53) + 1;
  return some;
}

TensorUpdate SomeUpdate() {
  TensorUpdate some;
  some.count = 10, some.finite = 9, some.changed = 4;
  some.squares = 5e-324, some.cross = -1.0 / 3;
  some.squares_before = std::nextafter(1.0, 2), some.squares_after = 3;
  return some;
}

UpdateTurn SomeTurn() { return {.dot = -std::sqrt(2), .squares = 0, .squares_before = 1e300}; }

bool SameBits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

void CheckAll(const MeasureCache& cache) {
  for (const std::string& key : {kA, kPlain}) {
    const auto* const found = cache.FindMoments(key);
    REQUIRE(found != nullptr);
    const TensorMoments expected = SomeMoments().moments;
    CHECK(found->moments.count == expected.count);
    CHECK(found->moments.nan == expected.nan);
    CHECK(found->moments.inf == expected.inf);
    CHECK(found->moments.zero == expected.zero);
    CHECK(SameBits(found->moments.min, expected.min));
    CHECK(SameBits(found->moments.max, expected.max));
    CHECK(SameBits(found->moments.mean, expected.mean));
    CHECK(SameBits(found->moments.squared_deviations, expected.squared_deviations));
    CHECK(found->first_nan == SomeMoments().first_nan);
  }
  const auto* const update = cache.FindUpdate(kA, kB);
  REQUIRE(update != nullptr);
  CHECK(update->count == 10);
  CHECK(update->finite == 9);
  CHECK(update->changed == 4);
  CHECK(SameBits(update->squares, SomeUpdate().squares));
  CHECK(SameBits(update->cross, SomeUpdate().cross));
  CHECK(SameBits(update->squares_before, SomeUpdate().squares_before));
  CHECK(SameBits(update->squares_after, SomeUpdate().squares_after));
  const auto* const turn = cache.FindTurn(kA, kB, kC);
  REQUIRE(turn != nullptr);
  CHECK(SameBits(turn->dot, SomeTurn().dot));
  CHECK(SameBits(turn->squares, SomeTurn().squares));
  CHECK(SameBits(turn->squares_before, SomeTurn().squares_before));
  CHECK(cache.size() == 4);
}

MeasureCache Filled() {
  MeasureCache cache;
  cache.AddMoments(kA, SomeMoments());
  cache.AddMoments(kPlain, SomeMoments());
  cache.AddUpdate(kA, kB, SomeUpdate());
  cache.AddTurn(kA, kB, kC, SomeTurn());
  return cache;
}

size_t Lines(const std::string& path) {
  const std::string text = ReadWholeFile(path);
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

const std::string kTurnLine = "{\"measure\":\"turn/1\",\"of\":[\"" + kA + "\",\"" + kB + "\",\"" +
                              kC + "\"],\"values\":[1.0,2.0,3.0]}";

}  // namespace

TEST_CASE("measure cache: what was added is found, and nothing else") {
  const MeasureCache cache = Filled();
  CheckAll(cache);
  CHECK(cache.FindMoments(kB) == nullptr);
  CHECK(cache.FindMoments("") == nullptr);
  CHECK(cache.FindUpdate(kB, kA) == nullptr);
  CHECK(cache.FindTurn(kC, kB, kA) == nullptr);
}

TEST_CASE("measure cache: what is known stays, and what has no key is not kept") {
  MeasureCache cache = Filled();
  cache.AddUpdate(kA, kB, {});
  cache.AddTurn(kA, kB, kC, {});
  cache.AddMoments(kA, {});
  cache.AddMoments("", SomeMoments());
  cache.AddUpdate(kA, "", SomeUpdate());
  cache.AddTurn("", kB, kC, SomeTurn());
  CheckAll(cache);
}

TEST_CASE("measure cache: a file keeps every bit, and holds each measure once") {
  TempDir dir;
  const std::string path = dir / "cache.jsonl";
  MeasureCache cache = Filled();
  REQUIRE(cache.Save(path).ok());
  CHECK(Lines(path) == 4);
  REQUIRE(cache.Save(path).ok());
  CHECK(Lines(path) == 4);
  MeasureCache loaded;
  REQUIRE(loaded.Load(dir / "none").ok());
  REQUIRE(loaded.Load(path).ok());
  CheckAll(loaded);
  loaded.AddTurn(kC, kB, kA, {});
  REQUIRE(loaded.Save(path).ok());
  CHECK(Lines(path) == 5);
  // The other one has not seen that, and adds nothing that stands there.
  REQUIRE(cache.Save(path).ok());
  CHECK(Lines(path) == 5);
}

TEST_CASE("measure cache: files can be put together, by it and by cat") {
  TempDir dir;
  MeasureCache one, two, both;
  one.AddMoments(kA, SomeMoments());
  one.AddUpdate(kA, kB, SomeUpdate());
  two.AddMoments(kPlain, SomeMoments());
  two.AddTurn(kA, kB, kC, SomeTurn());
  two.AddUpdate(kA, kB, SomeUpdate());
  REQUIRE(one.Save(dir / "1").ok());
  REQUIRE(two.Save(dir / "2").ok());
  REQUIRE(both.Load(dir / "1").ok());
  REQUIRE(both.Load(dir / "2").ok());
  CheckAll(both);
  REQUIRE(both.Save(dir / "1").ok());
  CHECK(Lines(dir / "1") == 4);
  WriteWholeFile(dir / "cat", ReadWholeFile(dir / "2") + ReadWholeFile(dir / "1"));
  MeasureCache all;
  REQUIRE(all.Load(dir / "cat").ok());
  CheckAll(all);
}

TEST_CASE("measure cache: the order of a file is that of contents") {
  TempDir dir;
  MeasureCache one, two;
  std::vector<std::string> keys;
  std::mt19937 random(3);
  for (int i = 0; i < 100; ++i) keys.push_back("tensor " + std::to_string(random()));
  for (size_t i = 0; i < keys.size(); ++i) {
    one.AddMoments(keys[i], SomeMoments());
    two.AddMoments(keys[keys.size() - 1 - i], SomeMoments());
  }
  REQUIRE(one.Save(dir / "1").ok());
  REQUIRE(two.Save(dir / "2").ok());
  CHECK(ReadWholeFile(dir / "1") == ReadWholeFile(dir / "2"));
}

TEST_CASE("measure cache: a line that was cut off is left out, and ended") {
  TempDir dir;
  const std::string path = dir / "cache.jsonl";
  REQUIRE(Filled().Save(path).ok());
  const std::string whole = ReadWholeFile(path);
  const size_t last = whole.rfind('\n', whole.size() - 2) + 1;
  for (size_t end = last; end < whole.size(); ++end) {
    CAPTURE(end - last);
    WriteWholeFile(path, whole.substr(0, end));
    MeasureCache cache;
    REQUIRE(cache.Load(path).ok());
    REQUIRE(cache.size() == (end + 1 == whole.size() ? 4 : 3));
    cache.AddTurn(kA, kB, kC, SomeTurn());
    REQUIRE(cache.Save(path).ok());
    MeasureCache again;
    REQUIRE(again.Load(path).ok());
    REQUIRE(again.size() == 4);
  }
}

TEST_CASE("measure cache: other versions are left out") {
  TempDir dir;
  MeasureCache cache;
  WriteWholeFile(dir / "c", "{\"measure\":\"turn/2\",\"angle\":[1]}\n\n" + kTurnLine +
                                "\n{\"measure\":\"histogram/1\",\"of\":{}}\n");
  REQUIRE(cache.Load(dir / "c").ok());
  CHECK(cache.size() == 1);
  CHECK(cache.FindTurn(kA, kB, kC)->squares_before == 3);
}

TEST_CASE("measure cache: a bad line is refused by its number") {
  TempDir dir;
  const auto changed = [](std::string_view from, std::string_view to) {
    std::string line = kTurnLine;
    line.replace(line.find(from), from.size(), to);
    return line;
  };
  const std::string moments = "{\"measure\":\"moments/1\",\"of\":[\"" + kA + "\"],\"values\":";
  const std::string update =
      "{\"measure\":\"update/1\",\"of\":[\"" + kA + "\",\"" + kB + "\"],\"values\":";
  const std::vector<std::string> bad = {
      "\x89PNG",
      "{\"schema\":\"dsckpt.trace/1\"}",
      "[]",
      "{\"measure\":\"turn/1\"}",
      "{\"measure\":\"turn/1\",\"of\":3,\"values\":[]}",
      kTurnLine + kTurnLine,
      changed("aaaa", "aaax"),
      changed("aaaa", "aaa"),
      changed("1.0,", ""),
      changed("1.0,", "1.0,1.0,"),
      changed("1.0,", "true,"),
      changed("1.0,", "\"infinite\","),
      changed("1.0,", "1e999,"),
      moments + "[3,4,0,0,1.0,1.0,1.0,1.0,0]}",
      moments + "[3,1,18446744073709551615,0,1.0,1.0,1.0,1.0,0]}",
      moments + "[3,1,0,3,1.0,1.0,1.0,1.0,0]}",
      moments + "[3,1,0,0,1.0,1.0,1.0,1.0,null]}",
      moments + "[3,1,0,0,1.0,1.0,1.0,1.0,3]}",
      moments + "[-3,0,0,0,1.0,1.0,1.0,1.0,null]}",
      moments + "[3,0.5,0,0,1.0,1.0,1.0,1.0,null]}",
      update + "[3,4,0,1.0,1.0,1.0,1.0]}",
      update + "[3,3,4,1.0,1.0,1.0,1.0]}",
      std::string(64 << 10, 'x') + "y",
      "{\"measure\":\"" + std::string(100 << 10, 'x') + "/1\"}",
      "{\"measure\":\"turn/1\",\"of\":" + std::string(60000, '[') + std::string(60000, ']') + "}"};
  for (const std::string& line : bad) {
    CAPTURE(line.substr(0, 150));
    WriteWholeFile(dir / "c", kTurnLine + "\n" + line + "\n" + kTurnLine + "\n");
    MeasureCache cache;
    const Status status = cache.Load(dir / "c");
    CHECK(status.code() == StatusCode::kCorrupt);
    CHECK(status.ToString().find("line 2: expected a line of measures") != std::string::npos);
  }
}

TEST_CASE("measure cache: a file that cannot be written stays as it was") {
  TempDir dir;
  const std::string path = dir / "cache.jsonl";
  REQUIRE(Filled().Save(path).ok());
  const std::string before = ReadWholeFile(path);
  MeasureCache cache;
  REQUIRE(cache.Load(path).ok());
  cache.AddTurn(kC, kB, kA, SomeTurn());
  {
    FaultFs fs;
    fs.Fail("fsync", ENOSPC);
    CHECK(cache.Save(path).code() == StatusCode::kNoSpace);
  }
  CHECK(ReadWholeFile(path) == before);
  {
    FaultFs fs;
    fs.Shorten(7);
    REQUIRE(cache.Save(path).ok());
  }
  MeasureCache again;
  REQUIRE(again.Load(path).ok());
  CHECK(again.size() == 5);
  CHECK(Lines(path) == 5);
  CHECK(cache.Save(dir / "no/such").code() == StatusCode::kNotFound);
  CHECK(cache.Load(dir.path()).code() == StatusCode::kInvalidArgument);
}
