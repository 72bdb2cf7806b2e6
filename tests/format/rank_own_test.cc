#include "format/rank_own.h"

#include <string>
#include <vector>

#include "tests/support/catch.h"

using namespace dsckpt;
using namespace dsckpt::format;

namespace {

NameColumns Columns(const std::vector<std::string>& names) {
  NameColumns columns;
  for (const std::string& name : names) columns.Append(name);
  return columns;
}

NameView ViewOf(const NameColumns& columns) { return {columns.bytes, columns.ends}; }

std::vector<std::string> Sorted(const std::vector<std::string>& names) {
  const NameColumns roots = SortedRoots(Columns(names));
  std::vector<std::string> out;
  for (uint32_t i = 0; i < roots.size(); ++i) out.emplace_back(roots[i]);
  CHECK(CheckRankOwn(ViewOf(roots)).ok());
  return out;
}

}  // namespace

TEST_CASE("rank own: the logical name has the rank in front") {
  CHECK(RankOwnName(0, "rng/torch") == "ranks/0/rng/torch");
  CHECK(RankOwnName(4294967295u, "") == "ranks/4294967295/");
  std::string_view name;
  CHECK(ParseRankOwnName("ranks/3/rng/torch", &name) == 3);
  CHECK(name == "rng/torch");
  CHECK(ParseRankOwnName("ranks/4294967295/", &name) == 4294967295u);
  CHECK(name.empty());
  for (const char* other :
       {"", "ranks", "ranks/", "ranks/3", "ranks/03/x", "ranks/-1/x", "ranks/4294967296/x",
        "ranks/x/3", "rank/3/x", "ranks3/x", "a/ranks/3/x"}) {
    CAPTURE(other);
    CHECK_FALSE(ParseRankOwnName(other, &name).has_value());
  }
  for (const char* below : {"ranks", "ranks/", "ranks/x", "ranks/3/x"}) CHECK(IsBelowRanks(below));
  for (const char* other : {"", "rank", "ranks3", "ranks!", "a/ranks"})
    CHECK_FALSE(IsBelowRanks(other));
}

TEST_CASE("rank own: a name belongs when it, or a beginning of whole segments, is listed") {
  const NameColumns columns = Columns({"", "a", "a!", "b/c", "b/c!d"});
  const NameView roots = ViewOf(columns);
  CHECK(FindRoot(roots, "a") == 1);
  CHECK(FindRoot(roots, "a/b/c") == 1);
  CHECK(FindRoot(roots, "a!") == 2);
  CHECK(FindRoot(roots, "a!/x") == 2);
  CHECK(FindRoot(roots, "b/c/d") == 3);
  CHECK(FindRoot(roots, "") == 0);
  CHECK(FindRoot(roots, "/x") == 0);
  for (const char* other : {"ab", "a\"", "b", "b/cd", "b/c!", "c"}) {
    CAPTURE(other);
    CHECK_FALSE(IsRankOwn(roots, other));
  }
  CHECK_FALSE(IsRankOwn(NameView(), "a"));
}

TEST_CASE("rank own: roots are stored in order, once, without what lies below another") {
  using Strings = std::vector<std::string>;
  CHECK(Sorted({}) == Strings());
  CHECK(Sorted({"b", "a", "b"}) == Strings{"a", "b"});
  CHECK(Sorted({"a/b", "a!", "a", "a/b/c", "ab"}) == Strings{"a", "a!", "ab"});
  CHECK(Sorted({"x/1", "x/0", "x"}) == Strings{"x"});
  CHECK(Sorted({"", "/a", "a"}) == Strings{"", "a"});
}

TEST_CASE("rank own: names of a file are checked") {
  const auto check = [](const std::vector<std::string>& names) {
    const NameColumns columns = Columns(names);
    return CheckRankOwn(ViewOf(columns)).message();
  };
  CHECK(check({"a", "a!", "a.b", "b"}) == "");
  CHECK(check({"a", "a!", "a/b"}).find("below no other of them, found below 'a'") !=
        std::string::npos);
  CHECK(check({"b", "a"}).find("byte order") != std::string::npos);
  CHECK(check({"a", "a"}).find("byte order") != std::string::npos);
  CHECK(check({std::string("a\0", 2)}).find("legal item name") != std::string::npos);
}

TEST_CASE("rank own: names that each begin with all before them are checked in linear time") {
  std::vector<std::string> names;
  std::string name;
  for (int i = 0; i < 4000; ++i) names.push_back(name += 'a');
  CHECK(CheckRankOwn(ViewOf(Columns({}))).ok());
  const NameColumns columns = Columns(names);
  CHECK(CheckRankOwn(ViewOf(columns)).ok());
}
