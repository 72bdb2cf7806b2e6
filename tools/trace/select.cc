// Which checkpoints of a run are looked at.

#include <algorithm>
#include <charconv>
#include <system_error>

#include "tools/terminal/format.h"
#include "tools/terminal/text.h"
#include "tools/trace/trace.h"

namespace dsckpt::tools {
namespace {

/// Steps from `first` up to `end`, which does not belong to it, each `stride`-th of those there
/// are.
struct StepRange {
  std::optional<int64_t> first, end;
  uint64_t stride = 1;
};

std::optional<int64_t> ParseNumber(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

std::vector<std::string> Split(const std::string& text, char mark) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == mark) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

Status InvalidSteps(const std::string& text) {
  return Status(
      StatusCode::kInvalidArgument,
      Format("--steps takes steps and ranges FROM:BEFORE:STRIDE, not '{}'", TerminalName(text)));
}

/// "512", "0:1000", "1000:", "::2".
Result<StepRange> ParseRange(const std::string& text) {
  const std::vector<std::string> parts = Split(text, ':');
  if (parts.size() > 3) return InvalidSteps(text);
  std::vector<std::optional<int64_t>> numbers(3);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty() && parts.size() > 1) continue;
    numbers[i] = ParseNumber(parts[i]);
    if (!numbers[i]) return InvalidSteps(text);
  }
  if (parts.size() == 1) return StepRange{numbers[0], *numbers[0] + 1, 1};
  if (numbers[2] == 0) return InvalidSteps(text);
  return StepRange{numbers[0], numbers[1], static_cast<uint64_t>(numbers[2].value_or(1))};
}

void Take(const Trajectory& run, const StepRange& range, std::vector<bool>& taken) {
  uint64_t in_range = 0;
  for (uint32_t t = 0; t < run.size(); ++t) {
    const auto step = run.step(t);
    if (!step || (range.first && *step < *range.first) || (range.end && *step >= *range.end)) {
      continue;
    }
    if (in_range++ % range.stride == 0) taken[t] = true;
  }
}

}  // namespace

Result<std::vector<uint32_t>> SelectCheckpoints(const Trajectory& run,
                                                const TraceOptions& options) {
  std::vector<bool> taken(run.size(), options.steps.empty());
  for (const std::string& text : options.steps) {
    for (const std::string& part : Split(text, ',')) {
      DSCKPT_ASSIGN_OR_RETURN(const StepRange range, ParseRange(part));
      Take(run, range, taken);
    }
  }
  std::vector<uint32_t> checkpoints;
  for (uint32_t t = 0; t < run.size(); ++t) {
    if (taken[t]) checkpoints.push_back(t);
  }
  if (options.last && *options.last < checkpoints.size()) {
    checkpoints.erase(checkpoints.begin(),
                      checkpoints.end() - static_cast<std::ptrdiff_t>(*options.last));
  }
  if (options.every && *options.every > 1) {
    size_t position = 0;
    std::erase_if(checkpoints, [&](uint32_t) { return position++ % *options.every != 0; });
  }
  return checkpoints;
}

std::optional<uint64_t> LayerOf(std::string_view name) {
  for (size_t i = 0; i < name.size();) {
    const size_t end = std::min(name.find_first_of("./", i), name.size());
    if (const auto number = ParseNumber(name.substr(i, end - i))) {
      return static_cast<uint64_t>(*number);
    }
    i = end + 1;
  }
  return std::nullopt;
}

}  // namespace dsckpt::tools
