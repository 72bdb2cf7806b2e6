#include "python/src/gil.h"

#include <cxxabi.h>
#include <unistd.h>

namespace dsckpt::python {
namespace {

// Never returns from the handler: to leave it without rethrowing would end the process too.
[[noreturn]] void WaitForTheEnd() {
  for (;;) pause();
}

}  // namespace

GilReleased::~GilReleased() {
  try {
    PyEval_RestoreThread(state_);
  } catch (abi::__forced_unwind&) {
    WaitForTheEnd();
  }
}

GilHeld::GilHeld() {
  try {
    state_ = PyGILState_Ensure();
  } catch (abi::__forced_unwind&) {
    WaitForTheEnd();
  }
}

}  // namespace dsckpt::python
