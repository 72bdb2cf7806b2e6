#include "io/workers.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace dsckpt::io {

int WorkerCount(int wanted) {
  if (wanted > 0) return wanted;
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 8);
}

std::thread StartThread(const char* name, std::function<void()> body) {
  // A new thread inherits the mask, so it never runs for an instant with signals open.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  try {
    // The kernel refuses names of more than 15 bytes.
    thread = std::thread([name = std::string(name).substr(0, 15), body = std::move(body)] {
      pthread_setname_np(pthread_self(), name.c_str());
      body();
    });
  } catch (const std::system_error&) {
    // Left without a thread: the caller sees joinable() == false.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

struct Workers::Impl {
  std::mutex mutex;
  std::condition_variable more;
  std::deque<std::function<void()>> jobs;
  bool closing = false;
  std::vector<std::thread> threads;

  void Work() {
    std::unique_lock lock(mutex);
    while (true) {
      more.wait(lock, [this] { return closing || !jobs.empty(); });
      if (jobs.empty()) return;
      {
        std::function<void()> job = std::move(jobs.front());
        jobs.pop_front();
        lock.unlock();
        job();
      }  // What the job captured is destroyed outside the lock as well.
      lock.lock();
    }
  }
};

Workers::Workers(int count, const char* name) : impl_(std::make_unique<Impl>()) {
  for (int i = 0; i < count; ++i) {
    std::thread thread = StartThread(name, [impl = impl_.get()] { impl->Work(); });
    if (!thread.joinable()) break;
    impl_->threads.push_back(std::move(thread));
  }
}

Workers::~Workers() {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->closing = true;
  }
  impl_->more.notify_all();
  for (std::thread& thread : impl_->threads) thread.join();
}

void Workers::Run(std::function<void()> job) {
  if (impl_->threads.empty()) return job();
  {
    std::lock_guard lock(impl_->mutex);
    impl_->jobs.push_back(std::move(job));
  }
  impl_->more.notify_one();
}

int Workers::count() const { return static_cast<int>(impl_->threads.size()); }

}  // namespace dsckpt::io
