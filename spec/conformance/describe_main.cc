// dsckpt_describe: reads paths from its standard input, one a line, and prints what the library
// finds in each file or checkpoint directory, one line of JSON a path. For comparing readers.

#include <filesystem>
#include <iostream>
#include <string>

#include "dsckpt/checkpoint.h"
#include "dsckpt/file.h"
#include "dsckpt/verify.h"
#include "spec/conformance/describe.h"

namespace dsckpt::conformance {
namespace {

using Json = nlohmann::ordered_json;

// With what verification finds: unknown encodings cannot be decoded, and are no fault of the file.
Result<Json> DescribeFile(const std::string& path) {
  DSCKPT_ASSIGN_OR_RETURN(const File file, File::Open(path));
  Json json = Describe(file);
  DSCKPT_ASSIGN_OR_RETURN(const VerifyReport report, Verify(path, {.decode = true}));
  json["problems"] = Json::array();
  for (const Problem& problem : report.problems) {
    if (problem.kind != "unsupported")
      json["problems"].push_back(problem.item + ": " + problem.kind);
  }
  return json;
}

Result<Json> DescribeDirectory(const std::string& path) {
  DSCKPT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(path));
  return Describe(checkpoint);
}

}  // namespace
}  // namespace dsckpt::conformance

int main() {
  for (std::string path; std::getline(std::cin, path);) {
    const auto json = std::filesystem::is_directory(path)
                          ? dsckpt::conformance::DescribeDirectory(path)
                          : dsckpt::conformance::DescribeFile(path);
    const nlohmann::ordered_json error = {{"error", json.status().ToString()}};
    std::cout << (json.ok() ? *json : error).dump() << "\n";
  }
  return 0;
}
