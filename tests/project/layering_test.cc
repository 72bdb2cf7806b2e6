#include <algorithm>
#include <set>

#include "tests/project/source_tree.h"
#include "tests/support/catch.h"

// Who may include whom. HACKING.md, "Folders", says why.

namespace {

struct Layer {
  const char* folder;
  std::vector<std::string> may_include;  // prefixes of quoted includes
};

const Layer kLayers[] = {
    {"include/dsckpt", {"dsckpt/"}},
    {"base", {"dsckpt/", "base/"}},
    {"format", {"dsckpt/", "base/", "format/", "index_generated.h", "manifest_generated.h"}},
    {"io", {"dsckpt/", "base/", "io/"}},
    {"numerics", {"dsckpt/", "base/", "format/", "numerics/"}},
    {"state", {"dsckpt/", "base/", "format/", "numerics/", "state/"}},
    {"run", {"dsckpt/", "base/", "format/", "io/", "run/"}},
    {"writer", {"dsckpt/", "base/", "format/", "numerics/", "io/", "state/", "run/", "writer/"}},
    {"reader", {"dsckpt/", "base/", "format/", "numerics/", "io/", "state/", "run/", "reader/"}},
    {"merge", {"dsckpt/", "base/", "numerics/", "io/", "run/", "merge/"}},
    {"analysis", {"dsckpt/", "base/", "format/", "numerics/", "analysis/"}},
    {"trajectory",
     {"dsckpt/", "base/", "format/", "numerics/", "io/", "run/", "merge/", "analysis/",
      "trajectory/"}},
    {"c", {"dsckpt/", "base/", "format/", "c/"}},
    {"mpi", {"dsckpt/"}},
    // With merge/ it shares operands, metadata, names and casts, with base/ their text.
    {"tools", {"dsckpt/", "base/unicode.h", "merge/", "tools/", "arrow_generated.h"}},
    // The two doors by which bench/switches.cc turns ideas off.
    {"bench", {"dsckpt/", "bench/", "io/device.h", "io/syscalls.h"}},
    {"examples", {"dsckpt/", "examples/"}},
    {"python", {"dsckpt/", "python/"}},
};

bool IsSource(const std::string& path) { return HasExtension(path, {".h", ".cc", ".c", ".cu"}); }

bool Allowed(const Layer& layer, const std::string& include) {
  if (include.find('/') == std::string::npos && std::string_view(layer.folder) == "examples") {
    return true;  // Examples build outside the project too: siblings by bare name.
  }
  return std::any_of(layer.may_include.begin(), layer.may_include.end(),
                     [&](const std::string& prefix) { return include.starts_with('"' + prefix); });
}

}  // namespace

TEST_CASE("each folder includes only the folders below it") {
  for (const Layer& layer : kLayers) {
    for (const std::string& file : FilesBelow(layer.folder)) {
      if (!IsSource(file)) continue;
      for (const std::string& include : Includes(ReadSource(file))) {
        if (include[0] == '<') continue;
        INFO(file << " includes " << include);
        CHECK(Allowed(layer, include));
      }
    }
  }
}

TEST_CASE("public headers include the standard library only") {
  const auto files = FilesBelow("include/dsckpt");
  REQUIRE(files.size() > 5);
  for (const std::string& file : files) {
    for (const std::string& include : Includes(ReadSource(file))) {
      if (include[0] != '<') continue;
      INFO(file << " includes " << include);
      // For programs that have PyTorch's headers; nothing else includes it.
      if (file == "include/dsckpt/torch.h" && include.starts_with("<ATen/")) continue;
      const bool c_header =
          include == "<stddef.h>" || include == "<stdint.h>" || include == "<stdbool.h>";
      CHECK((c_header || include.find_first_of("./") == std::string::npos));
    }
  }
}

TEST_CASE("public headers export what they declare") {
  for (const std::string& file : FilesBelow("include/dsckpt")) {
    const std::string code = CodeOnly(ReadSource(file));
    INFO(file << ": names outside `namespace DSCKPT_EXPORT dsckpt` miss in the shared library");
    CHECK(code.find("\nnamespace dsckpt") == std::string::npos);
    const std::string_view functions =
        file.starts_with("include/dsckpt/c.") || file.starts_with("include/dsckpt/c_")
            ? "visibility push(default)"
            : "";
    CHECK(code.find(functions) != std::string::npos);
  }
}

TEST_CASE("format touches no files, threads or clocks") {
  const std::set<std::string> forbidden = {"<chrono>",     "<condition_variable>",
                                           "<ctime>",      "<fcntl.h>",
                                           "<filesystem>", "<fstream>",
                                           "<future>",     "<mutex>",
                                           "<pthread.h>",  "<random>",
                                           "<thread>",     "<time.h>",
                                           "<cstdio>",     "<stdio.h>",
                                           "<unistd.h>",   "<atomic>",
                                           "<stdio.h>"};
  for (const std::string& file : FilesBelow("format")) {
    for (const std::string& include : Includes(ReadSource(file))) {
      INFO(file << " includes " << include);
      CHECK(forbidden.count(include) == 0);
      CHECK_FALSE(include.starts_with("<sys/"));
    }
  }
}
