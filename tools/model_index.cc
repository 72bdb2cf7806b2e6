#include "tools/model_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "tools/survey.h"
#include "tools/text.h"

namespace dsckpt::tools {

namespace {

using WeightMap = std::map<std::string, std::string>;  // tensor -> file

Status NotAnIndex(const std::string& path, const std::string& why) {
  return Status(StatusCode::kNotCheckpoint, path + " is no index of safetensors files: " + why)
      .WithPath(path);
}

Status CheckFileName(const std::string& path, const std::string& name) {
  const bool bare = !name.empty() && name != "." && name != ".." &&
                    name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
  if (bare) return {};
  return Status(StatusCode::kCorrupt, fmt::format("{} names the file '{}', which is no file beside "
                                                  "it: names must be bare",
                                                  path, Printable(name)))
      .WithPath(path);
}

Result<WeightMap> ReadWeightMap(const std::string& path) {
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
  WeightMap map;
  for (const auto& [tensor, file] : found->items()) {
    if (!file.is_string()) return NotAnIndex(path, "its weight_map maps to more than file names");
    map[tensor] = file.get<std::string>();
    DSCKPT_RETURN_IF_ERROR(CheckFileName(path, map[tensor]));
  }
  return map;
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

Result<Checkpoint> OpenModelIndex(const std::string& path) {
  DSCKPT_ASSIGN_OR_RETURN(const WeightMap map, ReadWeightMap(path));
  const std::filesystem::path directory = std::filesystem::path(path).parent_path();
  std::vector<std::string> files;
  for (const auto& [tensor, file] : map) files.push_back((directory / file).string());
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  auto checkpoint = Checkpoint::OpenShards(files, kAtOnce);
  if (checkpoint.status().code() == StatusCode::kNotFound) {
    return Status(StatusCode::kIncomplete, fmt::format("a file that {} names is missing: {}", path,
                                                       checkpoint.status().message()))
        .WithPath(checkpoint.status().path());
  }
  if (!checkpoint.ok()) return checkpoint;
  for (const auto& [tensor, file] : map) {
    if (IsStoredIn(*checkpoint, tensor, (directory / file).string())) continue;
    return Status(StatusCode::kIncomplete,
                  fmt::format("{} says that '{}' is in {}, which lacks it", path,
                              FitWidth(Printable(tensor), 200), Printable(file)))
        .WithPath(path);
  }
  return checkpoint;
}

}  // namespace dsckpt::tools
