#include "writer/device/completion.h"

#include <utility>

#include "io/workers.h"

namespace dsckpt {

CopyCompletion::~CopyCompletion() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  more_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void CopyCompletion::Add(std::function<Status()> wait, std::function<void(Status)> landed) {
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) thread_ = io::StartThread("dsckpt-landing", [this] { Work(); });
  if (!thread_.joinable()) {
    lock.unlock();
    return landed(wait());
  }
  flights_.push_back({std::move(wait), std::move(landed)});
  more_.notify_one();
}

void CopyCompletion::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    more_.wait(lock, [this] { return closing_ || !flights_.empty(); });
    if (flights_.empty()) return;
    {
      const CopyBatch flight = std::move(flights_.front());
      flights_.pop_front();
      lock.unlock();
      flight.landed(flight.wait());
    }  // What it captured is destroyed outside the lock as well.
    lock.lock();
  }
}

}  // namespace dsckpt
