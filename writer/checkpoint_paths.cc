#include "writer/checkpoint_paths.h"

#include <cstdio>
#include <utility>

#include "format/manifest.h"
#include "format/names.h"

namespace dsckpt {
namespace {

constexpr size_t kMaxNameBytes = 255;  // NAME_MAX of every file system in use.

constexpr std::pair<std::string_view, LeftOver::Kind> kMarks[] = {
    {".incomplete-", LeftOver::Kind::kIncomplete},
    {".removed-", LeftOver::Kind::kRemoved},
    {".replaced-", LeftOver::Kind::kReplaced},
};

/// `value` in at least `digits` digits.
std::string Padded(int64_t value, size_t digits) {
  const std::string text = std::to_string(value);
  return text.size() < digits ? std::string(digits - text.size(), '0') + text : text;
}

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
  } else if (name.size() + more > kMaxNameBytes) {
    why = "is too long for a file name";
  } else if (ParseLeftOver(name)) {
    why = "looks like what a commit leaves behind";
  }
  if (why == nullptr) return Status();
  return Status(StatusCode::kInvalidArgument,
                std::string(what) + " '" + format::Printable(name) + "' " + why);
}

}  // namespace

std::optional<LeftOver> ParseLeftOver(std::string_view entry) {
  for (const auto& [mark, kind] : kMarks) {
    const size_t at = entry.rfind(mark);
    if (at == std::string_view::npos || at + mark.size() == entry.size()) continue;
    return LeftOver{kind, std::string(entry.substr(0, at)),
                    std::string(entry.substr(at + mark.size()))};
  }
  return {};
}

std::string DefaultCheckpointName(int64_t step) {
  // Ten digits, so that names sort as steps do.
  return "step-" + Padded(step, 10);
}

std::string DefaultShardName(int rank) { return "shard-" + Padded(rank, 5) + ".dsckpt"; }

Status CheckCheckpointName(std::string_view name, std::string_view attempt) {
  if (name == "latest") {
    return Status(StatusCode::kInvalidArgument, "a checkpoint cannot be called 'latest'");
  }
  return CheckBareName("checkpoint name", name, kMarks[0].first.size() + attempt.size());
}

Status CheckShardName(std::string_view name) {
  if (name == format::kManifestName) {
    return Status(StatusCode::kInvalidArgument,
                  "a shard cannot be called '" + std::string(name) + "': that is the manifest");
  }
  if (name == "latest" || format::HasCommitMark(name)) {
    return Status(StatusCode::kInvalidArgument,
                  "shard name '" + format::Printable(name) + "' is one that a commit uses itself");
  }
  return CheckBareName("shard name", name, 0);
}

}  // namespace dsckpt
