#include "base/thread.h"

#include <pthread.h>
#include <signal.h>

#include <string>
#include <system_error>
#include <utility>

namespace dsckpt {

std::thread StartThread(const char* name, std::function<void()> body) {
  // A new thread inherits the mask, so it never runs for an instant with signals open.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  try {
    // The kernel refuses names of more than 15 bytes.
    thread = std::thread([name = std::string(name).substr(0, 15), body = std::move(body)] {
      pthread_setname_np(pthread_self(), name.c_str());
      body();
    });
  } catch (const std::system_error&) {
    // Left without a thread: the caller sees joinable() == false.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace dsckpt
