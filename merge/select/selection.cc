#include "merge/select/selection.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/unicode.h"
#include "dsckpt/limits.h"
#include "dsckpt/tree.h"
#include "merge/select/glob.h"
#include "merge/select/rename.h"

namespace dsckpt::merge {

namespace {

using Names = std::vector<std::optional<std::string>>;

Status InvalidSelection(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}

/// A pattern that meets nothing is a mistake that would be found much later.
Status CheckPatterns(const char* option, const std::vector<std::string>& patterns,
                     const std::vector<std::string_view>& names) {
  for (const std::string& pattern : patterns) {
    const bool met = std::any_of(names.begin(), names.end(), [&](std::string_view name) {
      return MatchesAny({pattern}, name);
    });
    if (!met) {
      return InvalidSelection(std::string(option) + " " + pattern +
                              ": no tensor has such a name, which a pattern covers as a whole "
                              "('dsckpt inspect' lists them)");
    }
  }
  return {};
}

/// The key that a path segment stands for, as text; a segment that no key leads to is left alone.
std::string KeyOf(const std::string& segment) {
  std::string text;
  const Result<Key> key = ParseNameSegment(segment, text);
  return key.ok() && key->kind() == Key::Kind::kString ? text : segment;
}

Status Strip(const std::string& prefix, bool paths, Names& names) {
  bool met = prefix.empty();
  for (auto& name : names) {
    if (!name || prefix.empty() || !name->starts_with(prefix)) continue;
    name->erase(0, prefix.size());
    if (paths && prefix.ends_with('/') && name->find('/') == std::string::npos) {
      *name = KeyOf(*name);
    }
    met = true;
  }
  return met ? Status()
             : InvalidSelection("strip-prefix " + prefix + ": no name that is taken begins so");
}

Status Replace(const std::string& option, Names& names) {
  DSCKPT_ASSIGN_OR_RETURN(const Rename rename, Rename::Parse(option));
  bool met = false;
  for (auto& name : names) {
    if (!name) continue;
    DSCKPT_ASSIGN_OR_RETURN(std::string renamed, rename.Apply(*name));
    met = met || renamed != *name;
    *name = std::move(renamed);
  }
  return met ? Status() : InvalidSelection("rename " + rename.text() + ": it changes no name");
}

Status CheckNames(const std::vector<std::string_view>& before, const Names& after) {
  std::unordered_map<std::string_view, size_t> seen;
  for (size_t i = 0; i < after.size(); ++i) {
    if (!after[i]) continue;
    const auto [there, added] = seen.emplace(*after[i], i);
    if (!added) {
      return InvalidSelection(QuotedName(before[there->second]) + " and " + QuotedName(before[i]) +
                              " would both be called " + QuotedName(*after[i]));
    }
    const bool reserved = *after[i] == "__metadata__" || *after[i] == "__dsckpt__";
    if (reserved || after[i]->size() > kMaxNameBytes) {
      return InvalidSelection(QuotedName(before[i]) + " would be called " + QuotedName(*after[i]) +
                              ", which no tensor may be");
    }
  }
  return {};
}

}  // namespace

Result<Names> SelectNames(const TensorSelection& selection,
                          const std::vector<std::string_view>& names, bool paths) {
  DSCKPT_RETURN_IF_ERROR(CheckPatterns("filter", selection.names.filters, names));
  DSCKPT_RETURN_IF_ERROR(CheckPatterns("exclude", selection.names.excludes, names));
  Names selected(names.size());
  bool any = names.empty();
  for (size_t i = 0; i < names.size(); ++i) {
    if (!selection.names.Takes(names[i])) continue;
    selected[i] = std::string(names[i]);
    any = true;
  }
  if (!any) return InvalidSelection("filter and exclude leave no tensor");
  DSCKPT_RETURN_IF_ERROR(Strip(selection.strip_prefix, paths, selected));
  for (const std::string& rename : selection.renames) {
    DSCKPT_RETURN_IF_ERROR(Replace(rename, selected));
  }
  DSCKPT_RETURN_IF_ERROR(CheckNames(names, selected));
  return selected;
}

}  // namespace dsckpt::merge

namespace dsckpt {

bool NameFilter::Takes(std::string_view name) const {
  return merge::MatchesAny(filters, name) &&
         (excludes.empty() || !merge::MatchesAny(excludes, name));
}

}  // namespace dsckpt
