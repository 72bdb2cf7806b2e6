#include "python/src/gil.h"

#include <unistd.h>

namespace dsckpt::python {

void WaitForTheEnd() {
  for (;;) pause();
}

GilReleased::~GilReleased() {
  OrWaitForTheEnd([this] { PyEval_RestoreThread(state_); });
}

GilHeld::GilHeld() : state_(OrWaitForTheEnd(&PyGILState_Ensure)) {}

}  // namespace dsckpt::python
