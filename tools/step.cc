#include "tools/step.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "tools/format.h"
#include "tools/text.h"

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

Result<std::vector<GivenAttribute>> ParseAttributes(const std::vector<std::string>& texts) {
  std::vector<GivenAttribute> attributes;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Invalid(Format("--attribute takes NAME=VALUE, not '{}'", Printable(text)));
    }
    std::string name = text.substr(0, equals);
    const bool twice = std::any_of(attributes.begin(), attributes.end(),
                                   [&](const auto& given) { return given.name == name; });
    if (twice) return Invalid(Format("--attribute gives '{}' twice", Printable(name)));
    attributes.push_back({std::move(name), ParseValue(std::string_view(text).substr(equals + 1))});
  }
  return attributes;
}

std::optional<int64_t> StepInName(std::string_view name) {
  constexpr std::string_view kWord = "step";
  constexpr size_t kNone = std::string_view::npos;
  for (size_t at = name.rfind(kWord); at != kNone;
       at = at == 0 ? kNone : name.rfind(kWord, at - 1)) {
    std::string_view rest = name.substr(at + kWord.size());
    if (rest.starts_with('-') || rest.starts_with('_')) rest.remove_prefix(1);
    const size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    if (digits != 0) return ParseWhole<int64_t>(rest.substr(0, digits));
  }
  return std::nullopt;
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
  DSCKPT_ASSIGN_OR_RETURN(const auto metadata, file.Metadata());
  for (const auto& [key, value] : metadata) {
    const auto step = key == "step" ? ParseWhole<int64_t>(value) : std::nullopt;
    if (step && *step >= 0) return std::optional(FoundStep{*step, "metadata", false});
  }
  const std::string& path = file.path();
  const auto step = StepInName(std::string_view(path).substr(path.rfind('/') + 1));
  if (!step) return std::optional<FoundStep>();
  return std::optional(FoundStep{*step, "file name", false});
}

}  // namespace dsckpt::tools
