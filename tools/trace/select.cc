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

Result<std::vector<uint32_t>> SelectCheckpoints(const Trajectory& run, const StepChoice& choice) {
  std::vector<bool> taken(run.size(), choice.steps.empty());
  for (const std::string& text : choice.steps) {
    for (const std::string& part : Split(text, ',')) {
      DSCKPT_ASSIGN_OR_RETURN(const StepRange range, ParseRange(part));
      Take(run, range, taken);
    }
  }
  std::vector<uint32_t> checkpoints;
  for (uint32_t t = 0; t < run.size(); ++t) {
    if (taken[t]) checkpoints.push_back(t);
  }
  if (choice.last && *choice.last < checkpoints.size()) {
    checkpoints.erase(checkpoints.begin(),
                      checkpoints.end() - static_cast<std::ptrdiff_t>(*choice.last));
  }
  if (choice.every && *choice.every > 1) {
    size_t position = 0;
    std::erase_if(checkpoints, [&](uint32_t) { return position++ % *choice.every != 0; });
  }
  return checkpoints;
}

Result<std::optional<uint32_t>> FindAgainst(const Trajectory& run,
                                            const std::vector<uint32_t>& selected,
                                            const std::string& against) {
  using Position = std::optional<uint32_t>;
  if (against == "prev" || selected.empty()) return Position();
  if (against == "init") return Position(selected.front());
  if (against == "final") return Position(selected.back());
  const auto step = ParseNumber(against);
  if (!step) {
    return Status(
        StatusCode::kInvalidArgument,
        Format("--against takes prev, init, final or a step, not '{}'", TerminalName(against)));
  }
  for (uint32_t t = 0; t < run.size(); ++t) {
    if (run.step(t) == step) return Position(t);
  }
  return Status(StatusCode::kNotFound,
                Format("--against {}: no checkpoint has this step", against));
}

Result<TracePart> ParsePart(const std::string& text) {
  constexpr int64_t kMost = 1'000'000;
  const std::vector<std::string> parts = Split(text, '/');
  const auto index = ParseNumber(parts[0]);
  const auto count = parts.size() == 2 ? ParseNumber(parts[1]) : std::nullopt;
  if (index && count && *index > 0 && *index <= *count && *count <= kMost) {
    return TracePart{static_cast<uint32_t>(*index), static_cast<uint32_t>(*count)};
  }
  return Status(StatusCode::kInvalidArgument,
                Format("takes I/N with I from 1 to N, such as 3/64, not '{}'", TerminalName(text)));
}

std::optional<uint64_t> LayerOf(std::string_view name) {
  for (size_t i = 0; i < name.size();) {
    const size_t end = std::min(name.find_first_of("./", i), name.size());
    const auto number = ParseNumber(name.substr(i, end - i));
    if (number && *number <= INT32_MAX) return static_cast<uint64_t>(*number);
    i = end + 1;
  }
  return std::nullopt;
}

}  // namespace dsckpt::tools
