// base/: text for messages, rounding, the bounded map, waiting.

#include "base/text.h"

#include "base/align.h"
#include "base/backoff.h"
#include "base/lru.h"
#include "tests/support/catch.h"

using namespace dsckpt;

TEST_CASE("hexadecimal digits") {
  CHECK(Hex64(0) == "0000000000000000");
  CHECK(Hex64(0x0123456789abcdef) == "0123456789abcdef");
  CHECK(Hex64(~uint64_t{0}) == "ffffffffffffffff");
  std::string text = "x";
  AppendHex(text, 0x0f);
  AppendHex(text, 0xa0);
  CHECK(text == "x0fa0");
}

TEST_CASE("a list for a message shows the first few and counts the rest") {
  ShortList names(2);
  std::string message;
  CHECK(names.empty());
  names.Say("missing: ", message);
  CHECK(message.empty());
  names.AddName("a\n");
  CHECK(names.Text() == R"('a\x0a')");
  names.AddName("b", "why");
  CHECK(names.Text() == R"('a\x0a', 'b' (why))");
  names.AddName("c");
  names.Add("d");
  CHECK(names.Text() == R"('a\x0a', 'b' (why) and 2 more)");
  names.Say("missing: ", message);
  names.Say("twice: ", message);
  CHECK(message ==
        R"(missing: 'a\x0a', 'b' (why) and 2 more; twice: 'a\x0a', 'b' (why) and 2 more)");
  ShortList numbers;
  for (int i = 0; i < 12; ++i) numbers.Add(std::to_string(i));
  CHECK(numbers.Text() == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more");
}

TEST_CASE("rounding") {
  for (const uint64_t unit : {1, 3, 64, 4096}) {
    for (const uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{63}, uint64_t{64}, uint64_t{65},
                                 uint64_t{4096}, uint64_t{12289}, uint64_t{1} << 62}) {
      INFO(value << " in units of " << unit);
      const uint64_t up = RoundUp(value, unit), down = RoundDown(value, unit);
      CHECK(up % unit == 0);
      CHECK(down % unit == 0);
      CHECK((value <= up && up - value < unit));
      CHECK((down <= value && value - down < unit));
      CHECK(DivideUp(value, unit) == up / unit);
    }
  }
  // The largest values do not overflow on the way.
  CHECK(DivideUp(~uint64_t{0}, 2) == uint64_t{1} << 63);
  CHECK(RoundUp(~uint64_t{0} - 1, 2) == ~uint64_t{0} - 1);
}

TEST_CASE("a bounded map forgets what was used longest ago") {
  LruCache<int, std::string> cache(2);
  cache.Put(1, "one");
  cache.Put(2, "two");
  REQUIRE(cache.Find(1) != nullptr);  // A use.
  CHECK(cache.Has(2));                // None.
  cache.Put(3, "three");
  CHECK(cache.Find(2) == nullptr);
  CHECK(*cache.Find(1) == "one");
  CHECK(cache.size() == 2);
  cache.Put(1, "another");  // Keeps what is there.
  CHECK(*cache.Find(1) == "one");
  cache.Erase(1);
  cache.Erase(7);
  CHECK(cache.Find(1) == nullptr);
  CHECK(*cache.Find(3) == "three");
  CHECK(cache.size() == 1);
}

TEST_CASE("waiting ends at the deadline and not before") {
  Backoff none(std::chrono::milliseconds(0));
  CHECK_FALSE(none.Wait());
  const auto deadline = Backoff::Clock::now() + std::chrono::milliseconds(5);
  int looks = 1;
  for (Backoff some(deadline); some.Wait();) ++looks;
  CHECK(looks > 1);
  CHECK(Backoff::Clock::now() >= deadline);
}
