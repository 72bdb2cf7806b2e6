#include "io/workers.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace dsckpt::io {

int WorkerCount(int wanted) {
  if (wanted > 0) return wanted;
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 8);
}

Workers::Workers(int count, const char* name)
    : jobs_(
          name, [](const std::function<void()>& job) { job(); }, count) {}

void Workers::Run(std::function<void()> job) {
  if (jobs_.threads() == 0) return job();
  jobs_.Push(std::move(job));
}

}  // namespace dsckpt::io
