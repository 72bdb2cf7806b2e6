#include "python/src/exit_status.h"

#include <cstdlib>
#include <mutex>

namespace dsckpt::python {

void FailAtExit() {
#ifdef __GLIBC__
  // Python has settled the status before it calls what atexit holds, so that only the C library is
  // left to change it. For glibc exit() may be called by a handler: it goes on with the handlers
  // that are left, and the last status counts (stdlib/exit.c, __run_exit_handlers).
  static std::once_flag once;
  std::call_once(once, [] {
    on_exit(
        [](int status, void*) {
          if (status == EXIT_SUCCESS) std::exit(EXIT_FAILURE);
        },
        nullptr);
  });
#endif
}

}  // namespace dsckpt::python
