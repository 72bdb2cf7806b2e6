#ifndef DSCKPT_MERGE_CANCELLATION_H_
#define DSCKPT_MERGE_CANCELLATION_H_

#include <atomic>
#include <functional>

#include "dsckpt/status.h"

namespace dsckpt::merge {

/// What ends a merge early.
struct Cancellation {
  /// MergeOptions::cancelled; asked on one thread.
  std::function<bool()> asked;
  /// For the threads that read: the first asking that said yes is noted here.
  std::atomic<bool> noted = false;

  /// Asks. kCancelled once the answer was yes.
  Status Check() {
    if (asked && !noted && asked()) noted = true;
    return Noted();
  }
  /// The same without asking, on any thread.
  Status Noted() const {
    return noted ? Status(StatusCode::kCancelled, "the merge was cancelled") : Status();
  }
};

}  // namespace dsckpt::merge

#endif  // DSCKPT_MERGE_CANCELLATION_H_
