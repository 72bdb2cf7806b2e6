// The long table by tensor and checkpoint, and the commands that show events.

#include <map>
#include <utility>

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

std::vector<TraceRow> RowsOf(const Trace& trace, uint32_t tensor, const std::string& group) {
  const Trajectory& run = trace.run;
  std::vector<TraceRow> rows;
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> first;
  std::optional<uint32_t> before;
  for (const uint32_t t : trace.selection.checkpoints) {
    const auto form = run.Form(t, tensor);
    if (!form) continue;
    TraceRow& row = rows.emplace_back();
    row.checkpoint = t;
    row.tensor = tensor;
    row.step = run.step(t);
    row.name = run.tensor(tensor).name;
    row.group = group;
    row.layer = LayerOf(row.name);
    row.form = *form;
    row.statistics = run.Statistics(t, tensor);
    row.digest = run.Digest(t, tensor);
    const auto content = run.Content(t, tensor);
    if (before) {
      row.prev_step = run.step(*before);
      const auto old = run.Content(*before, tensor);
      if (old && content) row.changed = *old != *content;
    }
    if (content) {
      const auto [known, added] = first.emplace(std::pair(content->high, content->low), t);
      if (!added) row.same_as_step = run.step(known->second);
    }
    before = t;
  }
  return rows;
}

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
      return "dsckpt inspect --json " + here + filter;
  }
}

}  // namespace dsckpt::tools
