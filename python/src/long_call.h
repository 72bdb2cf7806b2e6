#ifndef DSCKPT_PYTHON_LONG_CALL_H_
#define DSCKPT_PYTHON_LONG_CALL_H_

#include <nanobind/nanobind.h>

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "dsckpt/status.h"
#include "python/src/status.h"
#include "python/src/waits.h"

// Calls that may take long, which signals can stop.

namespace dsckpt::python {

/// A call that may take long, on a thread of its own where signals have to be seen meanwhile.
template <typename Report>
struct LongCall {
  std::optional<Result<Report>> result;
  std::atomic<bool> stop = false;
  std::promise<void> ended;
};

/// Runs `call`, which owns what it uses and ends soon after `stop` is set, without the GIL. When a
/// signal handler raises, the call is stopped; with `to_the_end` its end is waited for.
template <typename Report, typename Call>
Report RunLong(const std::shared_ptr<LongCall<Report>>& state, bool to_the_end, Call call) {
  const auto run = [state, call]() -> Status {
    state->result.emplace(call(*state));
    state->ended.set_value();
    return state->result->status();
  };
  Status status;
  try {
    status = Interruptibly(run);
  } catch (nb::python_error&) {
    state->stop = true;
    if (to_the_end) WithoutGil([&] { state->ended.get_future().wait(); });
    throw;
  }
  Check(status);
  return std::move(*state->result).value();
}

}  // namespace dsckpt::python

#endif  // DSCKPT_PYTHON_LONG_CALL_H_
