#include "tools/terminal/progress.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "tools/terminal/console.h"
#include "tools/terminal/format.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

constexpr size_t kWidestBar = 40;
constexpr size_t kNarrowestBar = 8;

// A lost frame of the bar is no failure.
void Draw(std::string_view text) {
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

std::string Bar(size_t columns, double part, bool ascii) {
  const auto filled = static_cast<size_t>(part * static_cast<double>(columns));
  std::string bar;
  for (size_t i = 0; i < columns; ++i) {
    bar += ascii ? (i < filled ? "#" : ".") : (i < filled ? "\u2588" : "\u2591");
  }
  return bar;
}

}  // namespace

ProgressBar::ProgressBar(const Console& console, std::string label)
    : enabled_(console.err_is_terminal() && !console.quiet()),
      ascii_(!console.utf8()),
      width_(console.err_width()),
      label_(std::move(label)),
      start_(Clock::now()),
      last_(start_) {}

void ProgressBar::Update(uint64_t done, uint64_t total) {
  const Clock::time_point now = Clock::now();
  // What ends within a moment needs no bar.
  if (!enabled_ || now - last_ < std::chrono::milliseconds(drawn_ ? 100 : 300)) return;
  last_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double part =
      total == 0 ? 0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const auto rate = static_cast<uint64_t>(static_cast<double>(done) / seconds);
  std::string tail = Format(" {:3.0f}%  {} of {}  {}/s", part * 100, HumanBytes(done),
                            HumanBytes(total), HumanBytes(rate));
  if (part > 0.02) tail += Format("  {:.0f} s left", seconds / part - seconds);
  const size_t used = tail.size() + 2;
  const size_t room = width_ > used ? width_ - used : 0;
  const size_t bar = std::min(kWidestBar, room / 2);
  if (bar < kNarrowestBar) {
    Draw(Format("\r\033[K{}", FitWidth(tail, width_ > 1 ? width_ - 1 : 1)));
  } else {
    Draw(Format("\r\033[K{} {}{}", FitWidth(label_, room - bar), Bar(bar, part, ascii_), tail));
  }
  drawn_ = true;
}

void ProgressBar::Clear() {
  if (drawn_) Draw("\r\033[K");
  drawn_ = false;
}

}  // namespace dsckpt::tools
