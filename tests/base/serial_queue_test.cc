#include "base/serial_queue.h"

#include <future>
#include <memory>

#include "tests/support/catch.h"

using namespace dsckpt;

TEST_CASE("a queue keeps the order, handles all before it goes, and drops what it handled") {
  std::vector<int> handled;
  std::weak_ptr<int> first;
  {
    SerialQueue<std::shared_ptr<int>> queue(
        "test", [&](const std::shared_ptr<int>& item) { handled.push_back(*item); });
    REQUIRE(queue.threads() == 1);
    for (int i = 0; i < 100; ++i) {
      auto item = std::make_shared<int>(i);
      if (i == 0) first = item;
      queue.Push(std::move(item));
    }
  }
  REQUIRE(handled.size() == 100);
  for (int i = 0; i < 100; ++i) CHECK(handled[static_cast<size_t>(i)] == i);
  CHECK(first.expired());
}

TEST_CASE("the newest item can be taken back until its turn has come") {
  std::promise<void> begun, go;
  std::vector<int> handled;
  {
    SerialQueue<int> queue("test", [&](int item) {
      if (item == 1) {
        begun.set_value();
        go.get_future().wait();
      }
      handled.push_back(item);
    });
    for (int i = 1; i <= 3; ++i) queue.Push(i);
    begun.get_future().wait();
    CHECK(queue.TakeNewest() == 3);
    CHECK(queue.TakeNewest() == 2);
    CHECK(queue.TakeNewest() == std::nullopt);
    queue.Push(4);
    go.set_value();
  }
  CHECK(handled == std::vector<int>{1, 4});
}
