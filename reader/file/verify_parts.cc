#include "reader/file/verify_parts.h"

#include <algorithm>
#include <utility>

#include "dsckpt/limits.h"

namespace dsckpt::reader {

namespace {
/// Bytes between two calls of the progress function.
constexpr uint64_t kReportBytes = 32 * kMiB;
}  // namespace

void ProblemList::Add(std::string_view item, std::string_view kind, uint64_t offset,
                      std::string expected, std::string found) {
  MutexLock lock(mutex_);
  problems_.push_back(
      {std::string(item), std::string(kind), offset, std::move(expected), std::move(found)});
  // Rarely, so that sorting costs little a problem.
  if (problems_.size() >= 4 * kMax) Shrink();
}

void ProblemList::Shrink() {
  std::stable_sort(problems_.begin(), problems_.end(),
                   [](const Problem& a, const Problem& b) { return a.offset < b.offset; });
  if (problems_.size() <= kMax) return;
  dropped_ += problems_.size() - kMax;
  problems_.resize(kMax);
}

std::vector<Problem> ProblemList::Take() {
  MutexLock lock(mutex_);
  Shrink();
  if (dropped_ > 0) {
    problems_.push_back({"file", "structure", problems_.back().offset, "no further problems",
                         std::to_string(dropped_) + " more"});
  }
  return std::move(problems_);
}

void ProgressMeter::Add(uint64_t bytes) {
  const uint64_t done = done_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (!options_.progress) return;
  // A thread that finds another one reporting goes on working.
  if (!mutex_.TryLock()) return;
  MutexLock lock(mutex_, std::adopt_lock);
  if (done < reported_ + kReportBytes) return;
  reported_ = done;
  options_.progress(done, total_);
}

void ProgressMeter::Finish() {
  if (options_.progress) options_.progress(done(), total_);
}

}  // namespace dsckpt::reader
