#include "run/run_layout.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/text.h"
#include "dsckpt/limits.h"
#include "format/file_names.h"
#include "io/temporary.h"

namespace dsckpt {
namespace {

using run::Mark;

constexpr Mark kMarks[] = {Mark::kIncomplete, Mark::kRemoved, Mark::kReplaced};

constexpr std::string_view kShardBegin = "shard-", kShardEnd = ".dsckpt";
constexpr size_t kShardDigits = 5, kStepDigits = 10, kPartDigits = 5;

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

Status NoName(std::string_view what, std::string_view name, std::string_view why) {
  return Status(StatusCode::kInvalidArgument, std::string(what) + " name '" + Printable(name) +
                                                  "' " + std::string(why) + "; give another name");
}

constexpr std::string_view kLockBegin = ".dsckpt-", kLockEnd = ".lock";

/// The last mark in the name that has something behind it, and what is before and behind it.
std::optional<run::EntryName> ParseMark(std::string_view entry) {
  std::optional<run::EntryName> last;
  for (const Mark mark : kMarks) {
    const std::string_view text = TextOf(mark);
    const size_t at = entry.rfind(text);
    if (at == std::string_view::npos || at + text.size() == entry.size()) continue;
    if (last && last->name.size() > at) continue;
    last = {run::EntryKind::kMarked, mark, std::string(entry.substr(0, at)),
            std::string(entry.substr(at + text.size()))};
  }
  return last;
}

std::optional<Mark> FindMark(std::string_view entry) {
  for (const Mark mark : kMarks) {
    if (entry.find(TextOf(mark)) != std::string_view::npos) return mark;
  }
  return {};
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

std::string ManifestPartName(uint32_t part) {
  return std::string(kManifestName) + "." + Padded(part, kPartDigits);
}

bool IsManifestPartName(std::string_view name) {
  if (!name.starts_with(kManifestName)) return false;
  const std::string_view digits = name.substr(std::min(name.size(), kManifestName.size() + 1));
  uint32_t part = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), part);
  return parsed.ec == std::errc() && part < kMaxManifestParts && name == ManifestPartName(part);
}

bool IsHiddenRunEntry(std::string_view entry) {
  return entry.empty() || entry[0] == '.' || entry == kLatestName || FindMark(entry);
}

std::optional<std::string> ParseLatest(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  text = text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
  if (!run::IsCheckpointName(text)) return {};
  return std::string(text);
}

std::string LatestText(std::string_view name) { return std::string(name) + "\n"; }

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

EntryName ParseEntry(std::string_view entry) {
  if (entry == kLatestName) return {EntryKind::kLatest};
  if (entry == kManifestName || IsManifestPartName(entry)) return {EntryKind::kManifest};
  if (entry == kRunLockName) return {EntryKind::kRunLock};
  if (io::IsTemporaryName(entry)) return {EntryKind::kTemporary};
  if (entry.starts_with(kLockBegin) && entry.ends_with(kLockEnd) &&
      entry.size() > kLockBegin.size() + kLockEnd.size()) {
    entry.remove_prefix(kLockBegin.size());
    entry.remove_suffix(kLockEnd.size());
    return {EntryKind::kEntryLock, {}, std::string(entry)};
  }
  if (auto marked = ParseMark(entry)) return *std::move(marked);
  if (IsHiddenRunEntry(entry)) return {EntryKind::kHidden, FindMark(entry)};
  return {};
}

std::optional<EntryName> ParseMarkedEntry(std::string_view entry) {
  EntryName parsed = ParseEntry(entry);
  if (parsed.kind != EntryKind::kMarked) return {};
  return parsed;
}

std::string AttemptId(std::string_view session, std::string_view sequence) {
  return std::string(session).append("-").append(sequence);
}

bool IsAttemptOf(std::string_view attempt, std::string_view session) {
  return attempt.size() > session.size() && attempt.starts_with(session) &&
         attempt[session.size()] == '-';
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

std::string EntryLockName(std::string_view name) {
  return std::string(kLockBegin).append(name).append(kLockEnd);
}

bool IsCheckpointName(std::string_view name) {
  return format::WhyNoEntryName(name) == nullptr && !IsSpace(name.front()) && !IsSpace(name.back());
}

Status CheckCheckpointName(std::string_view name, std::string_view attempt) {
  const char* why = format::WhyNoShardName(name);
  if (why == nullptr && (IsSpace(name.front()) || IsSpace(name.back()))) {
    why = "begins or ends with white space, which the text of 'latest' does not keep";
  }
  const size_t longest = name.size() + TextOf(Mark::kIncomplete).size() + attempt.size();
  if (why == nullptr && longest > format::kMaxFileName) {
    why = "is too long for a file name with the attempt's id behind it";
  }
  return why == nullptr ? Status() : NoName("checkpoint", name, why);
}

Status CheckShardName(std::string_view name) {
  const char* const why = format::WhyNoShardName(name);
  return why == nullptr ? Status() : NoName("shard", name, why);
}

}  // namespace run
}  // namespace dsckpt
