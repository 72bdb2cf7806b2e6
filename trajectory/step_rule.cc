#include "trajectory/step_rule.h"

#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <variant>

#include "base/unicode.h"
#include "io/directory.h"
#include "io/path.h"

namespace dsckpt::trajectory {

namespace {

std::optional<int64_t> ParseStep(std::string_view text) {
  int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || end != text.data() + text.size() || step < 0) return std::nullopt;
  return step;
}

std::optional<int64_t> StepIn(const Value& value) {
  if (const auto* const number = std::get_if<int64_t>(&value)) {
    return *number >= 0 ? std::optional(*number) : std::nullopt;
  }
  const auto* const text = std::get_if<std::string>(&value);
  return text != nullptr ? ParseStep(*text) : std::nullopt;
}

/// What a person calls the checkpoint: its directory where its files have names of their own.
std::string NameOf(const Checkpoint& checkpoint, const merge::Operand& operand) {
  if (checkpoint.has_manifest()) return std::string(io::BaseName(checkpoint.path()));
  const std::string file(io::BaseName(operand.path));
  const bool model =
      operand.kind == merge::OperandKind::kIndex || file.starts_with("model.safetensors");
  return model ? std::string(io::BaseName(io::ParentOf(operand.path))) : file;
}

}  // namespace

Result<StepRule> StepRule::Parse(const std::string& text) {
  StepRule rule;
  if (text == "auto") return rule;
  const size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  if (colon == std::string::npos || colon + 1 == text.size() ||
      (kind != "attr" && kind != "meta" && kind != "name")) {
    return Status(
        StatusCode::kInvalidArgument,
        "step_from takes auto, attr:KEY, meta:KEY or name:REGEX, not " + QuotedName(text));
  }
  rule.key_ = text.substr(colon + 1);
  if (kind != "name") {
    rule.kind_ = Kind::kMember;
    rule.source_ = kind == "attr" ? StepSource::kAttribute : StepSource::kMetadata;
    return rule;
  }
  rule.kind_ = Kind::kName;
  rule.source_ = StepSource::kName;
  // The mark is no part of any name, so that a name which does not match is told apart.
  DSCKPT_ASSIGN_OR_RETURN(rule.expression_,
                          merge::Rename::Parse("s\x01^.*?(?:" + rule.key_ + ").*$\x01/\\1\x01"));
  return rule;
}

Result<merge::MemberStep> StepRule::StepOf(
    const Checkpoint& checkpoint, const merge::Operand& operand,
    const std::vector<std::pair<std::string, Value>>& attributes) const {
  if (kind_ == Kind::kAuto) return merge::StepOf(checkpoint, operand);
  std::optional<int64_t> step;
  if (kind_ == Kind::kName) {
    DSCKPT_ASSIGN_OR_RETURN(const std::string found,
                            expression_->Apply(NameOf(checkpoint, operand)));
    if (found.starts_with('/')) step = ParseStep(std::string_view(found).substr(1));
  }
  for (const auto& [name, value] : attributes) {
    if (kind_ == Kind::kMember && name == key_) step = StepIn(value);
  }
  if (!step) return merge::MemberStep{};
  return merge::MemberStep{step, source_};
}

}  // namespace dsckpt::trajectory
