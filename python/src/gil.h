#ifndef DSCKPT_PYTHON_GIL_H_
#define DSCKPT_PYTHON_GIL_H_

#include <cxxabi.h>
#include <nanobind/nanobind.h>

#include <array>
#include <utility>

namespace dsckpt::python {

/// Blocks for ever. An exception handler that never ends keeps the thread as it is; to leave one
/// that caught the end of a thread would end the process.
[[noreturn]] void WaitForTheEnd();

/// Runs one call of Python's C API that may ask for the GIL, which is all that runs Python code.
///
/// An interpreter that shuts down ends each other thread that asks for the GIL, by unwinding its
/// stack. That must not pass frames of C++: their destructors would touch Python objects without
/// the GIL, and `noexcept` functions end the whole process. So such a thread waits here until the
/// process is gone. `body` itself must hold nothing with a destructor.
template <typename Body>
auto OrWaitForTheEnd(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (abi::__forced_unwind&) {
    WaitForTheEnd();
  }
}

/// Calls a Python function: as `function(args...)`, which must not be used where the interpreter
/// may end meanwhile (OrWaitForTheEnd). GIL held.
template <typename... Args>
nanobind::object CallPython(nanobind::handle function, const Args&... args) {
  const std::array<nanobind::object, sizeof...(Args)> held = {nanobind::cast(args)...};
  std::array<PyObject*, sizeof...(Args) + 1> given = {};
  for (size_t i = 0; i < held.size(); ++i) given[i] = held[i].ptr();
  PyObject* made = OrWaitForTheEnd(
      [&] { return PyObject_Vectorcall(function.ptr(), given.data(), held.size(), nullptr); });
  if (made == nullptr) throw nanobind::python_error();
  return nanobind::steal(made);
}

/// Gives the GIL up for its lifetime. In an interpreter that shuts down as OrWaitForTheEnd().
class GilReleased {
 public:
  GilReleased() : state_(PyEval_SaveThread()) {}
  ~GilReleased();
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* state_;
};

/// Holds the GIL for its lifetime, on any thread. In an interpreter that shuts down as
/// OrWaitForTheEnd().
class GilHeld {
 public:
  GilHeld();
  ~GilHeld() { PyGILState_Release(state_); }
  GilHeld(const GilHeld&) = delete;
  GilHeld& operator=(const GilHeld&) = delete;

 private:
  PyGILState_STATE state_;
};

/// Runs a call that waits or does I/O without the GIL.
template <typename Body>
auto WithoutGil(Body&& body) {
  const GilReleased released;
  return std::forward<Body>(body)();
}

}  // namespace dsckpt::python

#endif  // DSCKPT_PYTHON_GIL_H_
