// Shards whose annotations break rules X8 and X9 of spec/format.md, or whose digest of the content
// is another's.

#include "spec/conformance/patch.h"
#include "spec/conformance/vectors.h"

namespace dsckpt::conformance {
namespace {

// One column of ordinal 0 too many or too few leaves all else in order.
format::StatisticsColumns OneTensor() {
  return {.tensor = {0},
          .nan = {0},
          .inf = {0},
          .zero = {0},
          .min = {-1},
          .max = {1},
          .sum = {0},
          .sum_squares = {1}};
}

struct Broken {
  const char* name;
  const char* says;
  std::function<void(format::AnnotationColumns&)> change;
};

const Broken kBroken[] = {
    {"x8-columns", "statistics.zero", [](auto& a) { a.statistics.zero.clear(); }},
    {"x8-floats", "statistics.sum_squares", [](auto& a) { a.statistics.sum_squares.push_back(0); }},
    {"x8-tensor", "statistics: tensor", [](auto& a) { a.statistics.tensor = {1000}; }},
    {"x8-twice", "statistics: tensor",
     [](auto& a) {
       a.statistics = {{1, 1}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}};
     }},
    {"x8-counts", "together at most", [](auto& a) { a.statistics.nan = {uint64_t{1} << 40}; }},
    {"x9-order", "vendor: names",
     [](auto& a) {
       a.vendor = {{"b", ""}, {"a", ""}};
     }},
    {"x9-twice", "vendor: names",
     [](auto& a) {
       a.vendor = {{"a", ""}, {"a", ""}};
     }},
    {"x9-empty-name", "vendor: name",
     [](auto& a) {
       a.vendor = {{"", "data"}};
     }},
    {"x9-long-name", "vendor: name",
     [](auto& a) {
       a.vendor = {{std::string(256, 'a'), ""}};
     }},
    {"x9-control", "vendor: name",
     [](auto& a) {
       a.vendor = {{"com\x1B.example", ""}};
     }},
    {"x9-utf8", "vendor: name",
     [](auto& a) {
       a.vendor = {{"com.\xC0\x80", ""}};
     }},
    {"x9-too-many", "vendor: entries",
     [](auto& a) {
       for (char i = 0; i < 33; ++i)
         a.vendor.push_back({std::string(1, static_cast<char>('0' + i)), ""});
     }},
};

}  // namespace

Result<std::vector<InvalidVector>> InvalidAnnotations(const std::string& content) {
  DSCKPT_RETURN_IF_ERROR(TakeApart(content).status());
  std::vector<InvalidVector> vectors;
  for (const Broken& broken : kBroken) {
    const std::string bytes = WithColumns(content, [&](format::IndexColumns& c) {
      c.annotations.statistics = OneTensor();
      broken.change(c.annotations);
    });
    vectors.push_back({broken.name, bytes, StatusCode::kCorrupt, broken.says});
  }
  const std::string other =
      WithColumns(content, [](format::IndexColumns& c) { c.annotations.content->low ^= 1; });
  vectors.push_back({"v-content", other, StatusCode::kOk, "", "content", "checksum"});
  return vectors;
}

}  // namespace dsckpt::conformance
