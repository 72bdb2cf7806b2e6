#ifndef DSCKPT_PYTHON_GIL_H_
#define DSCKPT_PYTHON_GIL_H_

#include <Python.h>

#include <utility>

namespace dsckpt::python {

/// Gives the GIL up for its lifetime.
///
/// An interpreter that shuts down ends each other thread that asks for the GIL, by unwinding its
/// stack. That must not pass frames of C++, whose destructors and `noexcept` functions end the
/// whole process then, so such a thread waits here until the process is gone.
class GilReleased {
 public:
  GilReleased() : state_(PyEval_SaveThread()) {}
  ~GilReleased();
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* state_;
};

/// Holds the GIL for its lifetime, on any thread. In an interpreter that shuts down as GilReleased.
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
