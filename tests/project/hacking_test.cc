#include <set>
#include <sstream>

#include "tests/catch.h"
#include "tests/project/source_tree.h"

// HACKING.md lists files as "- `path`: what it is for". `a.{h,cc}` stands for two files.

namespace {

std::vector<std::string> Expand(const std::string& path) {
  const size_t open = path.find('{');
  if (open == std::string::npos) return {path};
  const size_t close = path.find('}', open);
  std::vector<std::string> out;
  std::istringstream choices(path.substr(open + 1, close - open - 1));
  for (std::string choice; std::getline(choices, choice, ',');) {
    out.push_back(path.substr(0, open) + choice + path.substr(close + 1));
  }
  return out;
}

std::set<std::string> ListedFiles() {
  std::set<std::string> listed;
  std::istringstream lines(ReadSource("HACKING.md"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("- `")) continue;
    const std::string path = line.substr(3, line.find('`', 3) - 3);
    for (const std::string& file : Expand(path)) {
      INFO(file << " is listed twice");
      CHECK(listed.insert(file).second);
    }
  }
  return listed;
}

}  // namespace

TEST_CASE("HACKING.md lists every source file, and no other") {
  const std::set<std::string> listed = ListedFiles();
  std::set<std::string> present;
  for (const char* folder : {"include", "format", "io", "run", "writer", "reader", "mpi", "tools", "spec", "fuzz",
                             "bench", "examples", "python", "cmake", "scripts"}) {
    for (const std::string& file : FilesBelow(folder)) {
      const bool data = file.starts_with("spec/conformance/valid/") ||
                        file.starts_with("spec/conformance/invalid/") ||
                        file.starts_with("fuzz/corpus/");
      if (!data && !file.ends_with("CMakeLists.txt")) present.insert(file);
    }
  }
  std::string wrong;
  for (const std::string& file : present) {
    if (listed.count(file) == 0) wrong += "not in HACKING.md: " + file + "\n";
  }
  for (const std::string& file : listed) {
    if (present.count(file) == 0) wrong += "not in the tree: " + file + "\n";
  }
  CHECK(wrong == "");
}
