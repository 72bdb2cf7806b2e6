#include "writer/device/completion.h"

#include <utility>

namespace dsckpt {

CopyCompletion::Queue* CopyCompletion::StartedQueue() {
  MutexLock lock(mutex_);
  if (queue_ == nullptr) {
    auto queue = std::make_unique<Queue>("dsckpt-copied",
                                         [](const Batch& batch) { batch.copied(batch.wait()); });
    if (queue->threads() == 0) return nullptr;
    queue_ = std::move(queue);
  }
  return queue_.get();
}

void CopyCompletion::Add(std::function<Status()> wait, std::function<void(Status)> copied) {
  Queue* const queue = StartedQueue();
  if (queue == nullptr) return copied(wait());
  queue->Push({std::move(wait), std::move(copied)});
}

}  // namespace dsckpt
