// What an index says besides its items: the digest of the content, vendor data.

#include <string>
#include <vector>

#include "dsckpt/engine.h"
#include "dsckpt/file.h"
#include "dsckpt/state.h"
#include "dsckpt/verify.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;

namespace {

/// A step's state; what two of them have in common does not depend on `step`.
struct Step {
  explicit Step(int64_t step, Encoding encoding = Encoding::kRaw) : number(step) {
    values.assign(5000, 1.5f);
    state.AddTensor("layer/w", std::span(values), {.encoding = encoding});
    state.AddTensor("layer/tied", std::span(values), {.encoding = encoding});
    state.AddAttribute("step", &number);
  }
  int64_t number;
  std::vector<float> values;
  State state;
};

Hash128 ContentOf(const std::string& path) { return File::Open(path)->ContentDigest().value(); }

}  // namespace

TEST_CASE("the digest of the content is the same for the same state") {
  TempDir dir;
  REQUIRE(SaveFile(dir / "1", Step(1).state).ok());
  REQUIRE(
      SaveFile(dir / "2", Step(2).state, {.metadata = {{"a", "b"}}, .vendor = {{"v", "x"}}}).ok());
  REQUIRE(SaveFile(dir / "zstd", Step(3, Encoding::kZstd).state).ok());
  Step changed(1);
  changed.values[4999] = 1.25f;
  REQUIRE(SaveFile(dir / "changed", changed.state).ok());
  const Hash128 content = ContentOf(dir / "1");
  CHECK(ContentOf(dir / "2") == content);
  CHECK(ContentOf(dir / "zstd") == content);
  CHECK(ContentOf(dir / "changed") != content);
  for (const char* name : {"1", "2", "zstd"}) CHECK(Verify(dir / name)->ok);
}

TEST_CASE("vendor data comes back by name, and what has no place is refused") {
  TempDir dir;
  const std::string bytes("\0\xFF text", 7);
  const Step step(1);
  REQUIRE(SaveFile(dir / "s", step.state, {.vendor = {{"com.example.b", bytes}, {"a", ""}}}).ok());
  const File file = File::Open(dir / "s").value();
  const auto vendor = file.Vendor();
  REQUIRE(vendor.size() == 2);
  CHECK(vendor[0].first == "a");
  CHECK(vendor[0].second.empty());
  CHECK(vendor[1].first == "com.example.b");
  CHECK(vendor[1].second == bytes);
  CHECK(Verify(dir / "s")->ok);

  struct Case {
    SaveOptions options;
    StatusCode code;
  };
  SaveOptions many;
  for (int i = 0; i < 33; ++i) many.vendor.emplace_back(std::to_string(i), "");
  const Case cases[] = {
      {{.vendor = {{"", "x"}}}, StatusCode::kInvalidArgument},
      {{.vendor = {{"a\n", "x"}}}, StatusCode::kInvalidArgument},
      {{.vendor = {{"\xC0\x80", "x"}}}, StatusCode::kInvalidArgument},
      {{.vendor = {{"a", "x"}, {"a", "y"}}}, StatusCode::kInvalidArgument},
      {{.container = Container::kSafetensors, .vendor = {{"a", "x"}}}, StatusCode::kUnsupported},
      {many, StatusCode::kLimitExceeded},
  };
  for (const Case& c : cases) {
    const Status status = SaveFile(dir / "refused", step.state, c.options);
    INFO(status.ToString());
    CHECK(status.code() == c.code);
    CHECK(File::Open(dir / "refused").status().code() == StatusCode::kNotFound);
  }
}

TEST_CASE("a file of plain safetensors records no content") {
  TempDir dir;
  REQUIRE(SaveFile(dir / "s", Step(1).state, {.container = Container::kSafetensors}).ok());
  const File file = File::Open(dir / "s").value();
  CHECK(!file.ContentDigest());
  CHECK(file.Vendor().empty());
}
