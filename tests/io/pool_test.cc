#include "io/pool.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "io/syscalls.h"
#include "io/workers.h"
#include "tests/support/catch.h"
#include "tests/support/fault_fs.h"
#include "tests/support/io_test_util.h"

using namespace dsckpt;
using namespace dsckpt::io;
using Use = WindowPool::Use;

TEST_CASE("memory is aligned, zero, and refused cleanly") {
  Memory memory = Memory::Allocate(5'000'000).value();
  CHECK(memory.bytes().size() == 5'000'000);
  CHECK(reinterpret_cast<uintptr_t>(memory.bytes().data()) % (2 << 20) == 0);
  CHECK(std::all_of(memory.bytes().begin(), memory.bytes().end(),
                    [](std::byte b) { return b == std::byte{0}; }));
  CHECK(reinterpret_cast<uintptr_t>(Memory::Allocate(10).value().bytes().data()) % 4096 == 0);
  CHECK(Memory::Allocate(0).status().code() == StatusCode::kInvalidArgument);
  for (uint64_t bytes : {uint64_t{1} << 50, uint64_t{1} << 61, ~uint64_t{0}}) {
    CHECK(Memory::Allocate(bytes).status().code() == StatusCode::kOutOfMemory);
  }
  FaultFs fs;
  fs.Fail("mmap", ENOMEM);
  CHECK(Memory::Allocate(4096).status().code() == StatusCode::kOutOfMemory);
  CHECK(WindowPool::Create(1 << 20, 1 << 16).status().error_number() == ENOMEM);
}

TEST_CASE("memory moves and belongs to the process that made it") {
  Memory first = Pattern(8 << 20, 1), second = Pattern(4096, 2);
  const std::string bytes = AsString(first.bytes());
  second = std::move(first);
  CHECK(AsString(second.bytes()) == bytes);
  Memory third = std::move(second);
  CHECK(second.bytes().empty());
  const pid_t child = fork();
  if (child == 0) {
    // Whatever the child maps where the parent's memory was must survive the destructor.
    const size_t length = third.bytes().size();
    void* at = RealSyscalls().mmap(third.bytes().data(), length, 3, 0x32, -1, 0);
    *static_cast<volatile char*>(at) = 7;
    { Memory gone = std::move(third); }
    _exit(*static_cast<volatile char*>(at) == 7 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(AsString(third.bytes()) == bytes);
}

TEST_CASE("a pool is cut into whole windows") {
  struct Case {
    uint64_t pool, window;
    int count;
  };
  for (auto [pool_bytes, window, count] :
       {Case{1 << 20, 1 << 16, 16}, Case{(1 << 20) + 4096, 1 << 19, 2}, Case{3 * 4096, 4096, 3}}) {
    auto pool = WindowPool::Create(pool_bytes, window).value();
    CHECK(pool->count() == count);
    CHECK(pool->window_bytes() == window);
    CHECK(pool->windows().size() == static_cast<size_t>(count));
    auto taken = pool->Acquire(Use::kPlaced);
    CHECK(taken.bytes.data() == pool->windows()[static_cast<size_t>(taken.index)].data());
    CHECK(taken.bytes.size() == window);
  }
  CHECK(WindowPool::Create(4096, 4096).status().code() == StatusCode::kInvalidArgument);
  CHECK(WindowPool::Create(1 << 20, 1000).status().code() == StatusCode::kInvalidArgument);
  CHECK(WindowPool::Create(1 << 20, 0).status().code() == StatusCode::kInvalidArgument);
  CHECK(WindowPool::Create(uint64_t{1} << 50, 1 << 20).status().code() == StatusCode::kOutOfMemory);
}

TEST_CASE("quotas: at-save copies and appended items never take what placed windows need") {
  struct Case {
    uint64_t windows;
    int at_save, appended;
  };
  for (auto [n, at_save, appended] : {Case{2, 1, 1}, Case{3, 1, 1}, Case{4, 2, 1}, Case{9, 4, 2}}) {
    auto pool = WindowPool::Create(n * 4096, 4096).value();
    std::vector<int> at_saves, logs;
    for (int i = 0; i < at_save; ++i) at_saves.push_back(pool->Acquire(Use::kAtSave).index);
    for (int i = 0; i < appended; ++i) logs.push_back(pool->Acquire(Use::kAppended).index);
    std::atomic<int> more = 0;
    std::thread blocked_at_save([&] {
      pool->Release(Use::kAtSave, pool->Acquire(Use::kAtSave).index);
      ++more;
    });
    std::thread blocked_log([&] {
      pool->Release(Use::kAppended, pool->Acquire(Use::kAppended).index);
      ++more;
    });
    // All placed windows that are left can be had while the others wait for their quota.
    std::vector<int> raws;
    for (int i = at_save + appended; i < static_cast<int>(n); ++i) {
      raws.push_back(pool->Acquire(Use::kPlaced).index);
    }
    for (int index : raws) pool->Release(Use::kPlaced, index);
    for (int i = 0; i < 1000 && !raws.empty(); ++i) {  // Room for the others to do wrong.
      pool->Release(Use::kPlaced, pool->Acquire(Use::kPlaced).index);
      std::this_thread::yield();
    }
    CHECK(more == 0);
    for (int index : at_saves) pool->Release(Use::kAtSave, index);
    blocked_at_save.join();
    CHECK(more == 1);
    for (int index : logs) pool->Release(Use::kAppended, index);
    blocked_log.join();
    CHECK(more == 2);
  }
}

TEST_CASE("a waiter gets the window that is released, and its wait is counted") {
  auto pool = WindowPool::Create(2 * 4096, 4096).value();
  uint64_t unwaited = 0;
  const int a = pool->Acquire(Use::kPlaced, &unwaited).index;
  const int b = pool->Acquire(Use::kPlaced, &unwaited).index;
  CHECK(unwaited == 0);
  std::atomic<bool> started = false;
  uint64_t waited = 0;
  int got = -1;
  std::thread waiter([&] {
    started = true;
    got = pool->Acquire(Use::kPlaced, &waited).index;
  });
  while (!started) std::this_thread::yield();
  pool->Release(Use::kPlaced, b);
  waiter.join();
  CHECK(got == b);
  pool->Release(Use::kPlaced, a);
  CHECK(pool->Acquire(Use::kPlaced).index == a);
}

TEST_CASE("C32 a storm of all uses on few windows ends") {
  for (uint64_t n : {3, 4, 7}) {
    auto pool = WindowPool::Create(n * 4096, 4096).value();
    Workers storage(1, "storage");
    std::vector<std::thread> threads;
    auto write = [&](Use use) {  // Released by storage alone.
      const int index = pool->Acquire(use).index;
      storage.Run([&pool, use, index] { pool->Release(use, index); });
    };
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 2000; ++i) write(Use::kPlaced);
      });
      threads.emplace_back([&] {
        for (int i = 0; i < 2000; ++i) write(Use::kAppended);
      });
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) {  // An at-save window goes once a placed one has its bytes.
          const int index = pool->Acquire(Use::kAtSave).index;
          write(Use::kPlaced);
          pool->Release(Use::kAtSave, index);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}
