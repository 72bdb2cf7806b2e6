#include "tools/terminal/interrupt.h"

#include <cstddef>

namespace dsckpt::tools {
namespace {

volatile sig_atomic_t g_signal = 0;
void Note(int signal) { g_signal = signal; }

}  // namespace

InterruptGuard::InterruptGuard() {
  g_signal = 0;
  struct sigaction action {};
  action.sa_handler = Note;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &old_[i]);
    // nohup: what the parent wants ignored stays ignored.
    if (old_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &old_[i], nullptr);
}

int InterruptGuard::signal() { return g_signal; }

}  // namespace dsckpt::tools
