#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "base/unicode.h"
#include "dsckpt/merge.h"
#include "merge/number_text.h"
#include "merge/paths.h"
#include "tests/support/catch.h"

using namespace dsckpt;
using namespace dsckpt::merge;

TEST_CASE("floating-point numbers as the shortest text that reads back") {
  const std::pair<double, const char*> kTexts[] = {
      {0.0, "0.0"},
      {-0.0, "-0.0"},
      {1.0, "1.0"},
      {1.5, "1.5"},
      {-2.25, "-2.25"},
      {0.1, "0.1"},
      {100000.0, "100000.0"},
      {1e15, "1000000000000000.0"},
      {1e16, "1e+16"},
      {1.5e20, "1.5e+20"},
      {1e-4, "0.0001"},
      {1.25e-5, "1.25e-05"},
      {5e-324, "5e-324"},
      {std::numeric_limits<double>::max(), "1.7976931348623157e+308"},
      {std::numeric_limits<double>::infinity(), "inf"},
      {-std::numeric_limits<double>::infinity(), "-inf"},
      {std::nan(""), "nan"},
  };
  for (const auto& [number, text] : kTexts) CHECK(DoubleText(number) == text);
}

TEST_CASE("large integers in decimal, very large ones in hexadecimal") {
  CHECK(BigIntText({false, {}}) == "0");
  CHECK(BigIntText({true, {5}}) == "-5");
  // 2^64 and 10^9 + 7: digits in the middle that are zero.
  CHECK(BigIntText({false, {0, 0, 0, 0, 0, 0, 0, 0, 1}}) == "18446744073709551616");
  CHECK(BigIntText({false, {7, 0xCA, 0x9A, 0x3B}}) == "1000000007");
  std::vector<uint8_t> long_magnitude(1025, 0);
  long_magnitude.back() = 0x1F;
  CHECK(BigIntText({true, long_magnitude}) == "-0x1f" + std::string(2048, '0'));
}

TEST_CASE("paths from the root on") {
  const std::pair<const char*, const char*> kPaths[] = {
      {"/a/b", "/a/b"},   {"/a/b/", "/a/b"},   {"//a//b", "/a/b"},
      {"/a/./b", "/a/b"}, {"/a/../b", "/b"},   {"/../a", "/a"},
      {"/", "/"},         {"/a/b/../..", "/"}, {"/a..b/.c", "/a..b/.c"},
  };
  for (const auto& [path, whole] : kPaths) CHECK(AbsolutePath(path).value() == whole);
  CHECK(AbsolutePath("x/../y").value().ends_with("/y"));
  CHECK(io::BaseName("/a/b") == "b");
  CHECK(io::BaseName("/") == "");
  CHECK(CanonicalPath("/no/such/path") == "");
}

TEST_CASE("names that nobody vouches for are made printable") {
  CHECK(TerminalName("a\\b") == "a\\\\b");
  CHECK(SafeText("a\\b") == "a\\b");
  CHECK(TerminalName("\x1b[2J\xff") == "\\x1b[2J\\xff");
  CHECK(TerminalName("\xe2\x80\xae") == "\\u202e");
  CHECK(TerminalName("\xc3\xa9") == "\xc3\xa9");
  CHECK(FitWidth("abcdefghij", 7) == "ab...ij");
  CHECK(QuotedName(std::string(300, 'x')) ==
        "'" + std::string(98, 'x') + "..." + std::string(99, 'x') + "'");
}

TEST_CASE("a filter takes names that a pattern matches and none excludes") {
  CHECK(NameFilter{}.Takes("anything"));
  const NameFilter layers{{"model/*", "head"}, {"*.bias"}};
  CHECK(layers.Takes("model/w"));
  CHECK(layers.Takes("head"));
  CHECK_FALSE(layers.Takes("model/w.bias"));
  CHECK_FALSE(layers.Takes("header"));
}
