// What is said of an event: the command that shows it, and where the first NaN is.

#include <algorithm>

#include "tools/terminal/format.h"
#include "tools/terminal/text.h"
#include "tools/trace/trace.h"

namespace dsckpt::tools {
namespace {

/// For a POSIX shell.
std::string ShellQuoted(std::string_view text) {
  const bool plain = !text.empty() && text.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyz"
                                          "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789@%+=:,./_-") == std::string_view::npos;
  if (plain) return std::string(text);
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

/// A pattern that `name` alone matches.
std::string GlobQuoted(std::string_view name) {
  std::string pattern;
  for (const char c : name) {
    if (std::string_view("*?[]{},\\").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return ShellQuoted(pattern);
}

}  // namespace

std::string CommandFor(const Trace& trace, const TrajectoryEvent& event) {
  const Trajectory& run = trace.run;
  const std::string here = ShellQuoted(run.operand(event.checkpoint));
  const std::string there = event.other ? ShellQuoted(run.operand(*event.other)) + " " : "";
  const std::string filter =
      event.tensor ? " --filter " + GlobQuoted(run.tensor(*event.tensor).name) : "";
  switch (event.kind) {
    case TrajectoryEventKind::kDuplicate:
      return "dsckpt hash --tree " + there + here;
    case TrajectoryEventKind::kFrozen:
      return "dsckpt hash " + there + here + filter;
    case TrajectoryEventKind::kJump:
    case TrajectoryEventKind::kCoarse:
    case TrajectoryEventKind::kReshaped:
    case TrajectoryEventKind::kRetyped:
    case TrajectoryEventKind::kAdded:
    case TrajectoryEventKind::kRemoved:
      if (event.other) return "dsckpt diff " + there + here + filter;
      return "dsckpt inspect " + here + filter;
    case TrajectoryEventKind::kMissingStep: {
      const std::string& text = run.operand(event.checkpoint);
      const bool at_step = text != run.path(event.checkpoint);
      const size_t end = text.rfind(at_step ? '@' : '/');
      return "dsckpt ls " + (end == std::string::npos ? "." : ShellQuoted(text.substr(0, end)));
    }
    default:
      return "dsckpt stats " + here + filter;
  }
}

std::string FirstNan(const Trace& trace) {
  const auto found = std::ranges::find(trace.events, TrajectoryEventKind::kNan,
                                       [](const TrajectoryEvent& event) { return event.kind; });
  if (found == trace.events.end() || !found->tensor) return {};
  const auto step = [&](std::optional<uint32_t> t) {
    const auto known = t ? trace.run.step(*t) : std::nullopt;
    return known ? "step " + std::to_string(*known) : "a checkpoint of unknown step";
  };
  const std::string where = TerminalName(trace.run.tensor(*found->tensor).name);
  const std::string element = found->element ? Format(", element {}", *found->element) : "";
  const std::string clean = found->other ? "; the last one without is " + step(found->other) : "";
  return Format("The first NaN is in {}{}, at {}{}.", where, element, step(found->checkpoint),
                clean);
}

}  // namespace dsckpt::tools
