#ifndef DSCKPT_PYTHON_HOLD_H_
#define DSCKPT_PYTHON_HOLD_H_

#include <nanobind/nanobind.h>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "dsckpt/status.h"
#include "python/src/status.h"

namespace dsckpt::python {

/// A reference to a Python object that any thread may drop: without the GIL it is put aside, and
/// the main thread releases it soon after. Null for None. GIL held.
std::shared_ptr<const void> Hold(nb::object object);

/// Takes the GIL on an engine thread. False in an interpreter that is shutting down, where waiting
/// for the GIL would never end: Python is not called then.
class EngineThreadGil {
 public:
  EngineThreadGil();
  explicit operator bool() const { return gil_.has_value(); }

 private:
  std::optional<GilHeld> gil_;
};

/// From here on engine threads leave Python alone. Called at exit, after the writers were closed.
void StopCallbacks();

/// A Python callable for the engine: called on its threads with the GIL.
class Callback {
 public:
  Callback() = default;
  explicit Callback(nb::object function)
      : held_(Hold(function)), function_(function.is_none() ? nullptr : function.ptr()) {}
  explicit operator bool() const { return function_ != nullptr; }

  template <typename... Args>
  Status operator()(Args&&... args) const {
    const EngineThreadGil gil;
    if (!gil) return Status(StatusCode::kCancelled, "the interpreter is shutting down");
    try {
      const nb::handle function(function_);
      CallPython(function, args...);
      return Status();
    } catch (nb::python_error& error) {
      return FromPython(error);
    } catch (const std::exception& error) {
      return Status(StatusCode::kInternal, error.what());
    }
  }

 private:
  std::shared_ptr<const void> held_;
  PyObject* function_ = nullptr;
};

}  // namespace dsckpt::python

#endif  // DSCKPT_PYTHON_HOLD_H_
