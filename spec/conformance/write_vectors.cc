#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "dsckpt/checkpoint.h"
#include "dsckpt/file.h"
#include "spec/conformance/describe.h"
#include "spec/conformance/patch.h"
#include "spec/conformance/vectors.h"

namespace dsckpt::conformance {
namespace {

using Json = nlohmann::ordered_json;

Result<std::string> ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!in) return Status(StatusCode::kIoError, path + ": cannot be read");
  return bytes;
}

Status WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << bytes;
  out.close();
  return out ? Status() : Status(StatusCode::kIoError, path + ": cannot be written");
}

Status WriteDescription(const std::string& stem) {
  DSCKPT_ASSIGN_OR_RETURN(const File file, File::Open(stem + ".dsckpt"));
  return WriteFile(stem + ".json", Describe(file).dump(1) + "\n");
}

Status WriteValid(const std::string& directory) {
  for (const ValidVector& vector : ValidVectors()) {
    const std::string stem = directory + "/" + vector.name;
    DSCKPT_RETURN_IF_ERROR(SaveFile(stem + ".dsckpt", *MakeProvider(vector.describe),
                                    vector.options, {.pool_bytes = 16 * kMiB}));
    if (vector.first_version) {
      DSCKPT_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(stem + ".dsckpt"));
      DSCKPT_RETURN_IF_ERROR(WriteFile(stem + ".dsckpt", AsFirstVersion(bytes)));
    }
    DSCKPT_RETURN_IF_ERROR(WriteDescription(stem));
  }
  DSCKPT_ASSIGN_OR_RETURN(const std::string mixed, ReadFile(directory + "/mixed.dsckpt"));
  DSCKPT_ASSIGN_OR_RETURN(const std::string encoded, ReadFile(directory + "/encoded.dsckpt"));
  DSCKPT_ASSIGN_OR_RETURN(auto vectors, FutureVectors(mixed, encoded));
  DSCKPT_ASSIGN_OR_RETURN(const std::string frame, ReadFile(directory + "/frame.dsckpt"));
  for (FutureVector& vector : FrameVectors(frame)) vectors.push_back(std::move(vector));
  for (const FutureVector& vector : vectors) {
    const std::string stem = directory + "/" + vector.name;
    DSCKPT_RETURN_IF_ERROR(WriteFile(stem + ".dsckpt", vector.bytes));
    DSCKPT_RETURN_IF_ERROR(WriteDescription(stem));
  }
  return {};
}

// What an index has that was built without aligning empty vectors, as 0.1 built them.
Status WriteUnaligned(const std::string& directory) {
  DSCKPT_ASSIGN_OR_RETURN(const std::string nothing, ReadFile(directory + "/nothing.dsckpt"));
  DSCKPT_ASSIGN_OR_RETURN(const std::string tree, ReadFile(directory + "/attributes.dsckpt"));
  for (const auto& [name, bytes] :
       {std::pair("unaligned-nothing", nothing), std::pair("unaligned-attributes", tree)}) {
    const std::string stem = directory + "/" + name;
    DSCKPT_RETURN_IF_ERROR(WriteFile(stem + ".dsckpt", WithUnalignedVectors(bytes)));
    DSCKPT_RETURN_IF_ERROR(WriteDescription(stem));
  }
  return {};
}

// "F7" of "f7-header-length".
std::string RuleOf(const std::string& name) {
  std::string rule = name.substr(0, name.find('-'));
  rule[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(rule[0])));
  return rule;
}

// Any implementation can be held to this; texts of messages are dsckpt's own and stand apart.
Json Expectation(const InvalidVector& vector) {
  Json json = Json::object();
  if (vector.code != StatusCode::kOk) json["rule"] = RuleOf(vector.name);
  json["code"] = StatusCodeName(vector.code);
  if (!vector.item.empty()) json["verify"] = {{"item", vector.item}, {"kind", vector.kind}};
  return json;
}

Status WriteMessages(const std::string& path, const std::map<std::string, std::string>& messages) {
  return WriteFile(path, Json(messages).dump(1) + "\n");
}

Status WriteManifest(const std::string& directory) {
  DSCKPT_ASSIGN_OR_RETURN(const std::string pieces, ReadFile(directory + "/pieces.dsckpt"));
  DSCKPT_ASSIGN_OR_RETURN(const std::string second, ReadFile(directory + "/pieces-rank1.dsckpt"));
  DSCKPT_ASSIGN_OR_RETURN(const std::string bytes, ManifestVector(pieces, second));
  DSCKPT_RETURN_IF_ERROR(WriteFile(directory + "/manifest.manifest", bytes));
  // std::string aligns its bytes to 8 or more.
  DSCKPT_ASSIGN_OR_RETURN(const auto view, format::ParseManifest(std::as_bytes(std::span(bytes))));
  return WriteFile(directory + "/manifest.json", Describe(view).dump(1) + "\n");
}

Status WriteInvalid(const std::string& directory, const char* extension,
                    const std::vector<InvalidVector>& vectors,
                    std::map<std::string, std::string>& messages) {
  for (const InvalidVector& vector : vectors) {
    if (vector.code != StatusCode::kOk) messages[vector.name] = vector.message_contains;
    const std::string stem = directory + "/" + vector.name;
    DSCKPT_RETURN_IF_ERROR(WriteFile(stem + extension, vector.bytes));
    DSCKPT_RETURN_IF_ERROR(WriteFile(stem + ".json", Expectation(vector).dump(1) + "\n"));
  }
  return {};
}

Status WriteDirectory(const std::string& path, const DirectoryVector& vector) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  for (const auto& [name, bytes] : vector.files) {
    DSCKPT_RETURN_IF_ERROR(WriteFile(path + "/" + name, bytes));
  }
  return {};
}

Status WriteDirectories(const std::string& valid, const std::string& invalid,
                        std::map<std::string, std::string>& messages) {
  const auto read = [&](const char* name) { return ReadFile(valid + "/" + name); };
  DSCKPT_ASSIGN_OR_RETURN(const std::string pieces, read("pieces.dsckpt"));
  DSCKPT_ASSIGN_OR_RETURN(const std::string second, read("pieces-rank1.dsckpt"));
  DSCKPT_ASSIGN_OR_RETURN(const std::string manifest, read("manifest.manifest"));
  DSCKPT_ASSIGN_OR_RETURN(const std::string nothing, read("nothing.dsckpt"));
  DSCKPT_ASSIGN_OR_RETURN(const auto good, ValidDirectories(pieces, second, manifest, nothing));
  for (const DirectoryVector& vector : good) {
    const std::string path = valid + "/" + vector.name;
    DSCKPT_RETURN_IF_ERROR(WriteDirectory(path, vector));
    DSCKPT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(path));
    DSCKPT_ASSIGN_OR_RETURN(const Json json, Describe(checkpoint));
    DSCKPT_RETURN_IF_ERROR(WriteFile(path + ".json", json.dump(1) + "\n"));
  }
  DSCKPT_ASSIGN_OR_RETURN(const auto bad, InvalidDirectories(good[0]));
  for (const DirectoryVector& vector : bad) {
    const std::string path = invalid + "/" + vector.name;
    DSCKPT_RETURN_IF_ERROR(WriteDirectory(path, vector));
    if (vector.code != StatusCode::kOk) messages[vector.name] = vector.message_contains;
    Json json = {{"rule", RuleOf(vector.name)}, {"code", StatusCodeName(vector.code)}};
    if (vector.code == StatusCode::kOk) {
      json = {{"code", StatusCodeName(vector.code)},
              {"read", {{"tensor", vector.tensor}, {"code", StatusCodeName(vector.read_code)}}}};
    }
    DSCKPT_RETURN_IF_ERROR(WriteFile(path + ".json", json.dump(1) + "\n"));
  }
  return {};
}

}  // namespace

Status WriteVectors(const std::string& directory) {
  const std::string valid = directory + "/valid", invalid = directory + "/invalid";
  std::map<std::string, std::string> messages;
  DSCKPT_RETURN_IF_ERROR(WriteValid(valid));
  DSCKPT_RETURN_IF_ERROR(WriteUnaligned(valid));
  DSCKPT_RETURN_IF_ERROR(WriteManifest(valid));
  DSCKPT_RETURN_IF_ERROR(WriteDirectories(valid, invalid, messages));
  DSCKPT_ASSIGN_OR_RETURN(const std::string mixed, ReadFile(valid + "/mixed.dsckpt"));
  DSCKPT_ASSIGN_OR_RETURN(auto broken, InvalidVectors(mixed));
  DSCKPT_RETURN_IF_ERROR(WriteInvalid(invalid, ".dsckpt", broken, messages));
  DSCKPT_ASSIGN_OR_RETURN(const std::string aliases, ReadFile(valid + "/aliases.dsckpt"));
  DSCKPT_RETURN_IF_ERROR(
      WriteInvalid(invalid, ".dsckpt", InvalidHeaders(mixed, aliases), messages));
  DSCKPT_RETURN_IF_ERROR(
      WriteInvalid(invalid, ".dsckpt", InvalidListings(mixed, aliases), messages));
  DSCKPT_ASSIGN_OR_RETURN(const std::string frame, ReadFile(valid + "/frame.dsckpt"));
  DSCKPT_RETURN_IF_ERROR(WriteInvalid(invalid, ".dsckpt", InvalidFrames(frame), messages));
  DSCKPT_ASSIGN_OR_RETURN(const std::string content, ReadFile(valid + "/content.dsckpt"));
  DSCKPT_ASSIGN_OR_RETURN(broken, InvalidAnnotations(content));
  DSCKPT_RETURN_IF_ERROR(WriteInvalid(invalid, ".dsckpt", broken, messages));
  DSCKPT_ASSIGN_OR_RETURN(const std::string pieces, ReadFile(valid + "/pieces.dsckpt"));
  DSCKPT_ASSIGN_OR_RETURN(broken, InvalidPieces(pieces));
  DSCKPT_RETURN_IF_ERROR(WriteInvalid(invalid, ".dsckpt", broken, messages));
  DSCKPT_ASSIGN_OR_RETURN(const std::string manifest, ReadFile(valid + "/manifest.manifest"));
  DSCKPT_ASSIGN_OR_RETURN(broken, InvalidManifests(manifest));
  DSCKPT_RETURN_IF_ERROR(WriteInvalid(invalid, ".manifest", broken, messages));
  return WriteMessages(directory + "/messages.json", messages);
}

}  // namespace dsckpt::conformance
