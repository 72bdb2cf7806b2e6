#ifndef DSCKPT_TESTS_SUPPORT_IO_TEST_UTIL_H_
#define DSCKPT_TESTS_SUPPORT_IO_TEST_UTIL_H_

#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <future>
#include <mutex>
#include <string>
#include <vector>

#include "io/output_file.h"
#include "io/pool.h"
#include "io/queue.h"

/// Collects warnings from any thread.
class Warnings {
 public:
  dsckpt::io::Warn sink() {
    return [this](dsckpt::Status status) {
      std::lock_guard lock(mutex_);
      seen_.push_back(std::move(status));
    };
  }
  std::vector<dsckpt::Status> seen() {
    std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  std::mutex mutex_;
  std::vector<dsckpt::Status> seen_;
};

/// Page-aligned memory that holds a pattern depending on `seed` and position.
inline dsckpt::io::Memory Pattern(uint64_t bytes, uint64_t seed = 1) {
  auto memory = dsckpt::io::Memory::Allocate(bytes).value();
  uint64_t x = seed * 0x9e3779b97f4a7c15 + 1;
  for (std::byte& b : memory.bytes()) {
    x = x * 6364136223846793005 + 1442695040888963407;
    b = static_cast<std::byte>(x >> 56);
  }
  return memory;
}

inline std::string AsString(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct Outcome {
  int error = 0;
  uint64_t done = 0;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

/// Submits one request and waits for it.
inline Outcome Perform(dsckpt::io::IoQueue& queue, dsckpt::io::IoRequest request) {
  std::promise<Outcome> promise;
  request.complete = [&](int error, uint64_t done) { promise.set_value({error, done}); };
  queue.Submit(std::move(request));
  return promise.get_future().get();
}

inline dsckpt::Status Write(dsckpt::io::OutputFile& file, dsckpt::io::IoQueue& queue,
                            std::span<const std::byte> data, uint64_t offset) {
  std::promise<dsckpt::Status> promise;
  file.Write(queue, data, offset, -1, [&](dsckpt::Status s) { promise.set_value(std::move(s)); });
  return promise.get_future().get();
}

inline std::unique_ptr<dsckpt::io::IoQueue> ThreadBackend() {
  return dsckpt::io::IoQueue::Create(
             {.backend = dsckpt::io::IoQueueOptions::Backend::kThreads, .depth = 4}, {})
      .value();
}

/// Names in a directory, sorted.
inline std::vector<std::string> Names(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

#endif  // DSCKPT_TESTS_SUPPORT_IO_TEST_UTIL_H_
