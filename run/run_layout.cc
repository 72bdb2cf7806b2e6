#include "run/run_layout.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "format/manifest/manifest.h"
#include "format/names.h"

namespace dsckpt {
namespace {

using run::Mark;

constexpr Mark kMarks[] = {Mark::kIncomplete, Mark::kRemoved, Mark::kReplaced};

constexpr std::string_view kShardBegin = "shard-", kShardEnd = ".dsckpt";
constexpr size_t kShardDigits = 5, kStepDigits = 10;

std::string_view TextOf(Mark mark) { return format::kCommitMarks[static_cast<size_t>(mark)]; }

/// `value` in at least `digits` digits.
std::string Padded(int64_t value, size_t digits) {
  const std::string text = std::to_string(value);
  return text.size() < digits ? std::string(digits - text.size(), '0') + text : text;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsAlphanumeric(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

constexpr std::string_view kSpace = " \t\r\n\v\f";
bool IsSpace(char c) { return kSpace.find(c) != std::string_view::npos; }

Status CheckBareName(std::string_view what, std::string_view name, size_t more) {
  const char* why = nullptr;
  if (name.empty()) {
    why = "is empty";
  } else if (name.find('/') != std::string_view::npos ||
             name.find('\0') != std::string_view::npos) {
    why = "is no bare file name";
  } else if (name[0] == '.') {
    why = "begins with a dot";
  } else if (!format::IsValidUtf8(name)) {
    why = "is not UTF-8";
  } else if (IsSpace(name.front()) || IsSpace(name.back())) {
    why = "begins or ends with white space, which the text of 'latest' does not keep";
  } else if (name.size() + more > format::kMaxFileName) {
    why = "is too long for a file name";
  } else if (run::FindMark(name)) {
    why = "holds '.incomplete-', '.removed-' or '.replaced-', which only a commit puts there";
  }
  if (why == nullptr) return Status();
  return Status(StatusCode::kInvalidArgument,
                std::string(what) + " '" + Printable(name) + "' " + why + "; give another name");
}

}  // namespace

std::string DefaultCheckpointName(int64_t step) { return "step-" + Padded(step, kStepDigits); }

std::string DefaultShardName(int rank) {
  return std::string(kShardBegin) + Padded(rank, kShardDigits) + std::string(kShardEnd);
}

bool IsDefaultShardName(std::string_view name) {
  if (!name.starts_with(kShardBegin) || !name.ends_with(kShardEnd)) return false;
  if (name.size() < kShardBegin.size() + kShardDigits + kShardEnd.size()) return false;
  name.remove_prefix(kShardBegin.size());
  name.remove_suffix(kShardEnd.size());
  return std::all_of(name.begin(), name.end(), IsDigit);
}

bool IsHiddenRunEntry(std::string_view entry) {
  return entry.empty() || entry[0] == '.' || entry == run::kLatestName || run::FindMark(entry);
}

std::optional<int64_t> StepInName(std::string_view name) {
  constexpr std::string_view kBefore[] = {"step-", "step_", "step", "checkpoint-", "iter_"};
  std::optional<int64_t> step;
  for (size_t begin = 0; begin < name.size(); ++begin) {
    if (!IsDigit(name[begin]) || (begin > 0 && IsDigit(name[begin - 1]))) continue;
    size_t end = begin;
    while (end < name.size() && IsDigit(name[end])) ++end;
    if (end < name.size() && IsAlphanumeric(name[end])) continue;
    const std::string_view before = name.substr(0, begin);
    const bool says = std::any_of(std::begin(kBefore), std::end(kBefore), [&](auto word) {
      return before.ends_with(word) && (before.size() == word.size() ||
                                        !IsAlphanumeric(before[before.size() - word.size() - 1]));
    });
    int64_t value = 0;
    const auto parsed = std::from_chars(name.data() + begin, name.data() + end, value);
    if (says && parsed.ec == std::errc()) step = value;
  }
  return step;
}

namespace run {

std::optional<Mark> FindMark(std::string_view entry) {
  for (const Mark mark : kMarks) {
    if (entry.find(TextOf(mark)) != std::string_view::npos) return mark;
  }
  return {};
}

std::optional<MarkedName> ParseMarkedName(std::string_view entry) {
  std::optional<MarkedName> last;
  for (const Mark mark : kMarks) {
    const std::string_view text = TextOf(mark);
    const size_t at = entry.rfind(text);
    if (at == std::string_view::npos || at + text.size() == entry.size()) continue;
    if (last && last->name.size() > at) continue;
    last = MarkedName{mark, std::string(entry.substr(0, at)),
                      std::string(entry.substr(at + text.size()))};
  }
  return last;
}

std::string AttemptPaths::Directory() const {
  return Parent() + "/" + (in_place ? "" : name) + std::string(TextOf(Mark::kIncomplete)) + attempt;
}

std::string AttemptPaths::Tombstone() const {
  return Parent() + "/" + (in_place ? "" : name) + std::string(TextOf(Mark::kRemoved)) + attempt;
}

std::string AttemptPaths::Replaced() const {
  return Final() + std::string(TextOf(Mark::kReplaced)) + attempt;
}

std::string NameLock(std::string_view name) { return ".dsckpt-" + std::string(name) + ".lock"; }

Status CheckCheckpointName(std::string_view name, std::string_view attempt) {
  if (name == kLatestName || name == format::kManifestName) {
    return Status(StatusCode::kInvalidArgument,
                  "a checkpoint cannot be called '" + std::string(name) + "'");
  }
  return CheckBareName("checkpoint name", name, TextOf(Mark::kIncomplete).size() + attempt.size());
}

Status CheckShardName(std::string_view name) {
  if (name == format::kManifestName || name == kLatestName) {
    return Status(StatusCode::kInvalidArgument,
                  "a shard cannot be called '" + std::string(name) + "': a commit uses that name");
  }
  return CheckBareName("shard name", name, 0);
}

std::optional<std::string> ParseLatest(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  text = text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
  if (!CheckCheckpointName(text, "").ok()) return {};
  return std::string(text);
}

std::string LatestText(std::string_view name) { return std::string(name) + "\n"; }

}  // namespace run
}  // namespace dsckpt
