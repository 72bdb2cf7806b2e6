#ifndef DSCKPT_BASE_SERIAL_QUEUE_H_
#define DSCKPT_BASE_SERIAL_QUEUE_H_

// Threads with one queue.

#include <deque>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/thread.h"

namespace dsckpt {

/// A queue whose items are handled in the order given: one after another on one thread, or, with
/// several threads, begun in that order. An item is destroyed when it has been handled, outside of
/// the queue's lock. Thread-safe.
template <typename Item>
class SerialQueue {
 public:
  /// `handle` must not throw. Where the system has no thread left, fewer start: see threads().
  SerialQueue(const char* name, std::function<void(Item)> handle, int threads = 1)
      : handle_(std::move(handle)) {
    for (int i = 0; i < threads; ++i) {
      std::thread thread = StartThread(name, [this] { Work(); });
      if (!thread.joinable()) break;
      threads_.push_back(std::move(thread));
    }
  }
  /// Handles what is queued, then ends.
  ~SerialQueue() {
    {
      MutexLock lock(mutex_);
      closing_ = true;
    }
    changed_.NotifyAll();
    for (std::thread& thread : threads_) thread.join();
  }
  SerialQueue(const SerialQueue&) = delete;
  SerialQueue& operator=(const SerialQueue&) = delete;

  /// Threads that started. With none, nothing that is pushed would ever be handled.
  int threads() const { return static_cast<int>(threads_.size()); }

  void Push(Item item) {
    {
      MutexLock lock(mutex_);
      items_.push_back(std::move(item));
    }
    changed_.NotifyOne();
  }

  /// Takes the newest item back, unless its turn has come.
  std::optional<Item> TakeNewest() {
    MutexLock lock(mutex_);
    if (items_.empty()) return std::nullopt;
    std::optional<Item> item(std::move(items_.back()));
    items_.pop_back();
    return item;
  }

 private:
  void Work() {
    while (true) {
      std::optional<Item> item = Next();
      if (!item) return;
      handle_(std::move(*item));
    }
  }

  /// Blocks until there is one; nothing: the queue is closed and empty.
  std::optional<Item> Next() {
    MutexLock lock(mutex_);
    while (items_.empty() && !closing_) changed_.Wait(lock);
    if (items_.empty()) return std::nullopt;
    std::optional<Item> item(std::move(items_.front()));
    items_.pop_front();
    return item;
  }

  const std::function<void(Item)> handle_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Item> items_ DSCKPT_GUARDED_BY(mutex_);
  bool closing_ DSCKPT_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace dsckpt

#endif  // DSCKPT_BASE_SERIAL_QUEUE_H_
