#include "tools/select/selection.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "dsckpt/limits.h"
#include "dsckpt/tree.h"
#include "tools/select/glob.h"
#include "tools/select/rename.h"
#include "tools/terminal/format.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {

namespace {

using Names = std::vector<std::optional<std::string>>;

Status Invalid(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}

std::string Quoted(std::string_view name) { return Format("'{}'", FitWidth(Printable(name), 200)); }

/// A pattern that meets nothing is a mistake that would be found much later.
Status CheckPatterns(const char* option, const std::vector<std::string>& patterns,
                     const std::vector<std::string_view>& names) {
  for (const std::string& pattern : patterns) {
    const bool met = std::any_of(names.begin(), names.end(), [&](std::string_view name) {
      return MatchesAny({pattern}, name);
    });
    if (!met) {
      return Invalid(
          Format("{} {}: no tensor has such a name, which a pattern covers as a "
                 "whole ('dsckpt inspect' lists them)",
                 option, pattern));
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
             : Invalid(Format("--strip-prefix {}: no name that is taken begins so", prefix));
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
  return met ? Status() : Invalid(Format("--rename {}: it changes no name", rename.text()));
}

Status CheckNames(const std::vector<std::string_view>& before, const Names& after) {
  std::unordered_map<std::string_view, size_t> seen;
  for (size_t i = 0; i < after.size(); ++i) {
    if (!after[i]) continue;
    const auto [there, added] = seen.emplace(*after[i], i);
    if (!added) {
      return Invalid(Format("{} and {} would both be called {}", Quoted(before[there->second]),
                            Quoted(before[i]), Quoted(*after[i])));
    }
    const bool reserved = *after[i] == "__metadata__" || *after[i] == "__dsckpt__";
    if (reserved || after[i]->size() > kMaxNameBytes) {
      return Invalid(Format("{} would be called {}, which no tensor may be", Quoted(before[i]),
                            Quoted(*after[i])));
    }
  }
  return {};
}

const std::map<std::string, DType> kCastNames = {
    {"f16", DType::kF16},     {"bf16", DType::kBF16},   {"f32", DType::kF32},
    {"f64", DType::kF64},     {"float16", DType::kF16}, {"bfloat16", DType::kBF16},
    {"float32", DType::kF32}, {"float64", DType::kF64},
};

}  // namespace

void AddNameFilter(CommandLine& line, NameFilter& names, const char* filter_help,
                   const char* exclude_help) {
  line.Add("--filter", names.filters, filter_help).Repeatable().Placeholder("GLOB");
  line.Add("-x,--exclude", names.excludes, exclude_help).Repeatable().Placeholder("GLOB");
}

void AddSelectionOptions(CommandLine& line, Selection& selection) {
  AddNameFilter(line, selection.names, "Only tensors whose names match; repeatable",
                "Not those whose names match; repeatable");
  line.Add("--strip-prefix", selection.strip_prefix, "Names lose this beginning").Placeholder("P");
  line.Add("--rename", selection.renames, "Replace in names, as sed does; repeatable")
      .Repeatable()
      .Placeholder("s/RE/NEW/");
  const auto parse_dtype = [&selection](std::string name) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return tolower(c); });
    const auto found = kCastNames.find(name);
    if (found == kCastNames.end()) return name + " is none of BF16, F16, F32, F64";
    selection.dtype = found->second;
    return std::string();
  };
  line.AddParsed("--dtype", parse_dtype,
                 "Cast floating-point tensors: BF16, F16, F32 or F64, nearest even")
      .Placeholder("NAME");
}

bool NameFilter::Takes(std::string_view name) const {
  return MatchesAny(filters, name) && (excludes.empty() || !MatchesAny(excludes, name));
}

Result<Names> SelectNames(const Selection& selection, const std::vector<std::string_view>& names,
                          bool paths) {
  DSCKPT_RETURN_IF_ERROR(CheckPatterns("--filter", selection.names.filters, names));
  DSCKPT_RETURN_IF_ERROR(CheckPatterns("--exclude", selection.names.excludes, names));
  Names selected(names.size());
  bool any = names.empty();
  for (size_t i = 0; i < names.size(); ++i) {
    if (!selection.names.Takes(names[i])) continue;
    selected[i] = std::string(names[i]);
    any = true;
  }
  if (!any) return Invalid("--filter and --exclude leave no tensor");
  DSCKPT_RETURN_IF_ERROR(Strip(selection.strip_prefix, paths, selected));
  for (const std::string& rename : selection.renames) {
    DSCKPT_RETURN_IF_ERROR(Replace(rename, selected));
  }
  DSCKPT_RETURN_IF_ERROR(CheckNames(names, selected));
  return selected;
}

}  // namespace dsckpt::tools
