#include <algorithm>
#include <map>
#include <set>

#include "tests/project/source_tree.h"
#include "tests/support/catch.h"

// The layering test keeps folders apart; within a folder this one does for files.

namespace {

using Graph = std::map<std::string, std::vector<std::string>>;

/// The file that a quoted include means; empty for what the build makes.
std::string Resolve(const std::string& from, const std::string& include,
                    const std::set<std::string>& files) {
  const std::string name = include.substr(1, include.size() - 2);
  const std::string folder = from.substr(0, from.rfind('/') + 1);
  for (const std::string& path : {name, "include/" + name, "mpi/include/" + name, folder + name}) {
    if (files.count(path) != 0) return path;
  }
  return {};
}

Graph IncludeGraph(const std::vector<std::string>& sources) {
  const std::set<std::string> files(sources.begin(), sources.end());
  Graph graph;
  for (const std::string& file : sources) {
    for (const std::string& include : Includes(ReadSource(file))) {
      if (include[0] == '<') continue;
      const std::string path = Resolve(file, include, files);
      if (!path.empty()) graph[file].push_back(path);
    }
  }
  return graph;
}

/// The files of a circle in order, the first one again at the end; empty where there is none.
class CircleSearch {
 public:
  explicit CircleSearch(const Graph& graph) : graph_(graph) {}
  std::vector<std::string> Find() {
    for (const auto& [file, includes] : graph_) {
      if (Visit(file)) return {std::find(path_.begin(), path_.end(), path_.back()), path_.end()};
    }
    return {};
  }

 private:
  /// Depth first. True: a circle, and `path_` ends with it.
  bool Visit(const std::string& file) {
    const bool open = std::find(path_.begin(), path_.end(), file) != path_.end();
    if (!open && !seen_.insert(file).second) return false;
    path_.push_back(file);
    if (open) return true;
    if (const auto node = graph_.find(file); node != graph_.end()) {
      for (const std::string& next : node->second) {
        if (Visit(next)) return true;
      }
    }
    path_.pop_back();
    return false;
  }

  const Graph& graph_;
  std::set<std::string> seen_;
  std::vector<std::string> path_;
};

}  // namespace

TEST_CASE("a circle of includes is found") {
  const Graph none = {{"a", {"b", "c"}}, {"b", {"c"}}, {"c", {"d"}}};
  CHECK(CircleSearch(none).Find().empty());
  const Graph circle = {{"a", {"b", "c"}}, {"b", {"d"}}, {"c", {"e"}}, {"e", {"f"}}, {"f", {"c"}}};
  CHECK(CircleSearch(circle).Find() == std::vector<std::string>{"c", "e", "f", "c"});
  const Graph itself = {{"a", {"b"}}, {"b", {"b"}}};
  CHECK(CircleSearch(itself).Find() == std::vector<std::string>{"b", "b"});
}

TEST_CASE("no file includes itself, directly or through others") {
  std::vector<std::string> sources;
  for (const std::string& file : FilesBelow("")) {
    if (HasExtension(file, {".h", ".cc", ".c", ".cu"})) sources.push_back(file);
  }
  const Graph graph = IncludeGraph(sources);
  REQUIRE(graph.size() > 200);
  const std::vector<std::string> circle = CircleSearch(graph).Find();
  std::string text;
  for (const std::string& file : circle) text += file + "\n";
  INFO(text);
  CHECK(circle.empty());
}
