#include <set>
#include <sstream>

#include "tests/project/source_tree.h"
#include "tests/support/catch.h"

// HACKING.md explains folders as "- `folder`: what it is for".

namespace {

std::set<std::string> ExplainedFolders() {
  std::set<std::string> explained;
  std::istringstream lines(ReadSource("HACKING.md"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("- `")) continue;
    const std::string folder = line.substr(3, line.find('`', 3) - 3);
    INFO(folder << " is explained twice");
    CHECK(explained.insert(folder).second);
  }
  return explained;
}

// Sources, not the data of vectors and corpora.
bool IsSource(const std::string& file) {
  return HasExtension(file, {".h", ".cc", ".c", ".cu", ".py"});
}

}  // namespace

TEST_CASE("HACKING.md explains every folder of sources, and no other") {
  std::set<std::string> folders;
  for (const char* top : {"base",
                          "format",
                          "numerics",
                          "io",
                          "state",
                          "run",
                          "writer",
                          "reader",
                          "merge",
                          "analysis",
                          "trajectory",
                          "c",
                          "mpi",
                          "tools",
                          "python/src",
                          "python/dsckpt",
                          "python/datastates",
                          "python/dsckpt_command",
                          "fuzz",
                          "bench"}) {
    for (const std::string& file : FilesBelow(top)) {
      if (IsSource(file)) folders.insert(file.substr(0, file.rfind('/')));
    }
  }
  folders.erase("mpi/include/dsckpt");
  // Their own files are few, and named in the text of what lies below them.
  folders.insert({"spec", "examples", "cmake", "scripts", "tests"});
  const std::set<std::string> explained = ExplainedFolders();
  std::string wrong;
  for (const std::string& folder : folders) {
    const bool only_below = folder == "format" || folder == "reader";
    if (explained.count(folder) == 0 && !only_below) wrong += "not in HACKING.md: " + folder + "\n";
  }
  for (const std::string& folder : explained) {
    if (folders.count(folder) == 0) wrong += "not in the tree: " + folder + "\n";
  }
  CHECK(wrong == "");
}
