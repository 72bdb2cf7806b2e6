#include "tools/step.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <system_error>
#include <utility>

#include "dsckpt/run_layout.h"
#include "merge/paths.h"
#include "tools/terminal/format.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {

namespace {

template <typename Number>
std::optional<Number> ParseWhole(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Value ParseValue(std::string_view text) {
  if (const auto number = ParseWhole<int64_t>(text)) return Value(*number);
  if (const auto number = ParseWhole<double>(text)) return Value(*number);
  if (text == "true" || text == "false") return Value(text == "true");
  if (text == "null") return Value();
  return Value(std::string(text));
}

Status Invalid(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}

}  // namespace

Result<std::vector<GivenAttribute>> ParseAttributes(const std::vector<std::string>& texts,
                                                    const std::string& option) {
  std::vector<GivenAttribute> attributes;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Invalid(Format("{} takes NAME=VALUE, not '{}'", option, TerminalName(text)));
    }
    std::string name = text.substr(0, equals);
    const bool twice = std::any_of(attributes.begin(), attributes.end(),
                                   [&](const auto& given) { return given.name == name; });
    if (twice) return Invalid(Format("{} gives '{}' twice", option, TerminalName(name)));
    attributes.push_back({std::move(name), ParseValue(std::string_view(text).substr(equals + 1))});
  }
  return attributes;
}

Result<std::optional<FoundStep>> FindStep(const File& file, std::optional<int64_t> option,
                                          const std::vector<GivenAttribute>& attributes) {
  for (const GivenAttribute& given : attributes) {
    if (given.name != "step") continue;
    if (option) return Invalid("--step and --attribute step=... say the same: give one of them");
    const auto* const step = std::get_if<int64_t>(&given.value);
    if (step == nullptr) return Invalid("--attribute step=... takes a whole number");
    return std::optional(FoundStep{*step, "option", true});
  }
  if (option) return std::optional(FoundStep{*option, "option", false});
  const std::string path = file.path();
  DSCKPT_ASSIGN_OR_RETURN(const Checkpoint alone,
                          Checkpoint::OpenShards(std::span(&path, 1), merge::kAtOnce));
  if (alone.step() == kUnknownStep) return std::optional<FoundStep>();
  const bool name = alone.step_source() == StepSource::kName;
  return std::optional(FoundStep{alone.step(), name ? "file name" : "metadata", false});
}

}  // namespace dsckpt::tools
