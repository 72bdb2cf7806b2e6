#include "format/names.h"

#include <limits>

#include "dsckpt/limits.h"
#include "tests/support/catch.h"

using namespace dsckpt;
using namespace dsckpt::format;
using std::string_literals::operator""s;

namespace {

std::string Segment(const Key& key) {
  std::string out;
  AppendSegment(out, key);
  return out;
}

}  // namespace

TEST_CASE("UTF-8") {
  for (const std::string& valid :
       {""s, "a"s, "eight by"s, "\0"s, "\x7f"s, "\xC2\x80"s, "\xDF\xBF"s, "\xE0\xA0\x80"s,
        "\xED\x9F\xBF"s, "\xEE\x80\x80"s, "\xEF\xBF\xBF"s, "\xF0\x90\x80\x80"s, "\xF4\x8F\xBF\xBF"s,
        "12345678\xC3\xBC"s, "1234567\xC3\xBC"s}) {
    INFO(Printable(valid));
    CHECK(IsValidUtf8(valid));
  }
  for (const std::string& invalid :
       {"\x80"s, "\xBF"s, "\xC0\x80"s, "\xC1\xBF"s, "\xC2"s, "\xC2\x41"s, "\xE0\x9F\xBF"s,
        "\xE1\x80"s, "\xED\xA0\x80"s, "\xED\xBF\xBF"s, "\xF0\x8F\xBF\xBF"s, "\xF4\x90\x80\x80"s,
        "\xF5\x80\x80\x80"s, "\xFF"s, "\xF1\x80\x80"s, "12345678\xFF"s, "1234567\xC3"s}) {
    INFO(Printable(invalid));
    CHECK_FALSE(IsValidUtf8(invalid));
  }
}

TEST_CASE("C07 which names an item may bear") {
  for (const std::string& name :
       {""s, "a"s, "datastates_metadata"s, "__metadata"s, "../../etc/passwd"s, "a/b"s, "a|b"s, "0"s,
        "\x1b[2J"s, std::string(kMaxNameBytes, 'x')}) {
    CHECK(CheckItemName(name).ok());
  }
  struct Case {
    std::string name;
    const char* message;
  };
  for (const Case& c :
       {Case{"__metadata__", "item name '__metadata__' is reserved"},
        Case{"__dsckpt__", "item name '__dsckpt__' is reserved"},
        Case{"a\0b"s, "'a\\x00b' contains a NUL"}, Case{"a\xFF", "'a\\xff' is not valid UTF-8"},
        Case{std::string(kMaxNameBytes + 1, 'x'), "has 65537 bytes; the limit is 65536"}}) {
    const Status status = CheckItemName(c.name);
    CHECK(status.code() == StatusCode::kInvalidArgument);
    CHECK(status.message().find(c.message) != std::string::npos);
    CHECK(status.message().size() < 300);
  }
}

TEST_CASE("C08 path segments keep their type") {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  const std::pair<Key, std::string> cases[] = {
      {"", ""},
      {"a", "a"},
      {"a/b", "a~1b"},
      {"~", "~0"},
      {"~1/~0", "~01~1~00"},
      {"~s0", "~0s0"},
      {"a.b|c", "a.b|c"},
      {"0", "~s0"},
      {0, "0"},
      {-17, "-17"},
      {"-17", "~s-17"},
      {"007", "007"},
      {"-0", "-0"},
      {"-", "-"},
      {"+1", "+1"},
      {" 1", " 1"},
      {"1.0", "1.0"},
      {Key(kMin), "-9223372036854775808"},
      {"-9223372036854775808", "~s-9223372036854775808"},
      {"9223372036854775807", "~s9223372036854775807"},
      {"9223372036854775808", "9223372036854775808"},
  };
  for (const auto& [key, segment] : cases) {
    INFO(segment);
    CHECK(Segment(key) == segment);
    std::string storage;
    const auto parsed = ParseNameSegment(segment, storage);
    REQUIRE(parsed.ok());
    CHECK(parsed.value() == key);
  }
  CHECK(Segment(Key()).empty());
}

TEST_CASE("segments that no key gives") {
  for (const char* segment : {"~", "a~", "~2", "~s", "~sx", "~s007", "a/b", "x~s1", "~~0"}) {
    INFO(segment);
    std::string storage;
    CHECK(ParseNameSegment(segment, storage).status().code() == StatusCode::kInvalidArgument);
  }
}

TEST_CASE("C51 nothing that a terminal acts on is printed") {
  const std::pair<std::string, std::string> cases[] = {
      {"plain.name/0", "plain.name/0"},
      {"\xC3\xBC \xE6\xB5\x8B \xF0\x9F\x98\x80", "\xC3\xBC \xE6\xB5\x8B \xF0\x9F\x98\x80"},
      {"\x1b]8;;http://x\x1b\\y", "\\x1b]8;;http://x\\x1b\\\\y"},
      {"\x1b]52;c;eA==\a", "\\x1b]52;c;eA==\\x07"},
      {"\x1b[2J", "\\x1b[2J"},
      {"\n\r\t\x7f"s + '\0', "\\x0a\\x0d\\x09\\x7f\\x00"},
      {"\xC2\x80\xC2\x9B\xC2\x9F\xC2\xA0", "\\xc2\\x80\\xc2\\x9b\\xc2\\x9f\xC2\xA0"},
      {"\xE2\x80\x8E\xE2\x80\x8F\xD8\x9C", "\\xe2\\x80\\x8e\\xe2\\x80\\x8f\\xd8\\x9c"},
      {"\xE2\x80\xAA\xE2\x80\xAE\xE2\x80\xAF", "\\xe2\\x80\\xaa\\xe2\\x80\\xae\xE2\x80\xAF"},
      {"\xE2\x81\xA6\xE2\x81\xA9\xE2\x81\xAA", "\\xe2\\x81\\xa6\\xe2\\x81\\xa9\\xe2\\x81\\xaa"},
      {"\xFFz\xC3", "\\xffz\\xc3"},
      {"it's \"q\" \\", "it\\'s \\\"q\\\" \\\\"},
  };
  for (const auto& [name, printed] : cases) CHECK(Printable(name) == printed);
}
