#include "merge/model_index.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/unicode.h"
#include "merge/paths.h"

namespace dsckpt::merge {

namespace {

using WeightMap = std::map<std::string, std::string>;  // tensor -> file

struct ModelIndex {
  WeightMap map;
  Members members;
};

Status NotAnIndex(const std::string& path, const std::string& why) {
  return Status(StatusCode::kNotCheckpoint, path + " is no index of safetensors files: " + why)
      .WithPath(path);
}

Status CheckFileName(const std::string& path, const std::string& name) {
  const bool bare = !name.empty() && name != "." && name != ".." &&
                    name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
  if (bare) return {};
  return Status(StatusCode::kCorrupt, path + " names the file " + QuotedName(name) +
                                          ", which is no file beside it: names must be bare")
      .WithPath(path);
}

/// Sizes change with the files.
Members MembersOf(const nlohmann::json& index) {
  Members members;
  const auto metadata = index.find("metadata");
  if (metadata == index.end() || !metadata->is_object()) return members;
  for (const auto& [key, value] : metadata->items()) {
    if (key == "total_size" || key == "total_parameters") continue;
    members.emplace_back(key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return members;
}

Result<ModelIndex> ReadIndex(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return Status(errno == ENOENT ? StatusCode::kNotFound : StatusCode::kIoError,
                  "cannot open " + path)
        .WithErrno(errno)
        .WithPath(path);
  }
  const auto json = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return NotAnIndex(path, "it is not JSON");
  const auto found = json.is_object() ? json.find("weight_map") : json.end();
  if (found == json.end() || !found->is_object() || found->empty()) {
    return NotAnIndex(path, "it has no weight_map");
  }
  ModelIndex index{{}, MembersOf(json)};
  WeightMap& map = index.map;
  for (const auto& [tensor, file] : found->items()) {
    if (!file.is_string()) return NotAnIndex(path, "its weight_map maps to more than file names");
    map[tensor] = file.get<std::string>();
    DSCKPT_RETURN_IF_ERROR(CheckFileName(path, map[tensor]));
  }
  return index;
}

bool IsStoredIn(const Checkpoint& checkpoint, const std::string& tensor, const std::string& file) {
  const auto info = checkpoint.FindTensor(tensor);
  if (!info.ok()) return false;
  const auto pieces = checkpoint.Pieces(info->ordinal);
  return std::any_of(pieces.begin(), pieces.end(), [&](const PieceLocation& piece) {
    return checkpoint.shard(piece.shard).name == file;
  });
}

}  // namespace

bool IsModelIndex(const std::string& path) { return path.ends_with(".json"); }

Result<std::string> FindModel(const std::string& directory,
                              const std::vector<std::string>& entries) {
  const std::set<std::string> names(entries.begin(), entries.end());
  const auto path = [&](const std::string& name) {
    return directory + (directory.ends_with('/') ? "" : "/") + name;
  };
  for (const std::string_view base : kModelBases) {
    const std::string file = std::string(base) + ".safetensors", index = file + ".index.json";
    const bool whole = names.count(file) != 0, parts = names.count(index) != 0;
    if (whole && parts) {
      return Status(StatusCode::kInvalidArgument, directory + " holds both " + file + " and " +
                                                      index + ": name the one that is meant")
          .WithPath(directory);
    }
    if (whole || parts) return path(whole ? file : index);
    // "model-00001-of-00002.safetensors"
    const auto part = names.lower_bound(std::string(base) + "-0");
    if (part != names.end() && part->starts_with(std::string(base) + "-0") &&
        part->find("-of-") != std::string::npos && part->ends_with(".safetensors")) {
      return Status(StatusCode::kIncomplete, directory + " holds " + *part +
                                                 ", but not the index " + index +
                                                 " of all its files")
          .WithPath(directory);
    }
  }
  std::vector<std::string> others;
  for (const std::string& name : names) {
    if (name.ends_with(".safetensors.index.json")) others.push_back(name);
  }
  if (others.size() > 1) {
    return Status(StatusCode::kInvalidArgument, directory + " holds both " + others[0] + " and " +
                                                    others[1] + ": name the one that is meant")
        .WithPath(directory);
  }
  return others.empty() ? std::string() : path(others[0]);
}

Result<Model> OpenModelIndex(const std::string& path, const CheckpointOptions& options) {
  DSCKPT_ASSIGN_OR_RETURN(ModelIndex index, ReadIndex(path));
  const WeightMap& map = index.map;
  // Named as the index is: beside it.
  const std::string beside = path.substr(0, path.rfind('/') + 1);
  std::vector<std::string> files;
  for (const auto& [tensor, file] : map) files.push_back(beside + file);
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  auto checkpoint = Checkpoint::OpenShards(files, options);
  if (checkpoint.status().code() == StatusCode::kNotFound) {
    return Status(StatusCode::kIncomplete,
                  "a file that " + path + " names is missing: " + checkpoint.status().message())
        .WithPath(checkpoint.status().path());
  }
  if (!checkpoint.ok()) return checkpoint.status();
  for (const auto& [tensor, file] : map) {
    if (IsStoredIn(*checkpoint, tensor, beside + file)) continue;
    return Status(StatusCode::kIncomplete, path + " says that " + QuotedName(tensor) + " is in " +
                                               TerminalName(file) + ", which lacks it")
        .WithPath(path);
  }
  return Model{std::move(checkpoint).value(), std::move(index.members)};
}

}  // namespace dsckpt::merge
