#include <algorithm>
#include <regex>

#include "tests/project/source_tree.h"
#include "tests/support/catch.h"

namespace {

const char* const kLibrary[] = {"include", "base",   "format", "numerics",   "io", "state", "run",
                                "writer",  "reader", "merge",  "trajectory", "c",  "mpi"};

size_t LineOf(const std::string& text, size_t position) {
  return 1 + static_cast<size_t>(
                 std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(position), '\n'));
}

bool IsText(const std::string& path) {
  return HasExtension(path, {".h", ".cc", ".c", ".cu", ".fbs", ".py", ".cmake", ".txt"}) ||
         path.find("scripts/") != std::string::npos;
}

}  // namespace

TEST_CASE("the library neither ends the process nor prints nor asserts") {
  const std::regex forbidden(
      R"(\b(abort|exit|_exit|quick_exit|terminate|raise|signal|sigaction|printf|fprintf|puts|putchar|perror|assert)\s*\(|\bstd::(cout|cerr|clog)\b)");
  for (const char* folder : kLibrary) {
    for (const std::string& file : FilesBelow(folder)) {
      if (!HasExtension(file, {".h", ".cc"})) continue;
      const std::string code = CodeOnly(ReadSource(file));
      for (std::sregex_iterator hit(code.begin(), code.end(), forbidden), end; hit != end; ++hit) {
        FAIL_CHECK(file << ":" << LineOf(code, static_cast<size_t>(hit->position())) << ": "
                        << hit->str());
      }
      for (const std::string& include : Includes(ReadSource(file))) {
        INFO(file << " includes " << include);
        CHECK(include != "<iostream>");
        CHECK(include != "<cassert>");
      }
    }
  }
}

TEST_CASE(
    "no name of a test holds a semicolon, at which ctest would take it for two that do not exist") {
  const std::regex name(R"re(TEST_CASE\(\s*"([^"]*)")re");
  for (const std::string& file : FilesBelow("tests")) {
    if (!HasExtension(file, {".cc"})) continue;
    const std::string text = ReadSource(file);
    for (std::sregex_iterator hit(text.begin(), text.end(), name), end; hit != end; ++hit) {
      INFO(file << ": " << hit->str(1));
      CHECK(hit->str(1).find(';') == std::string::npos);
    }
  }
}

TEST_CASE("sources are ASCII, without tabs and trailing spaces") {
  const char* const folders[] = {"include", "base",     "format", "numerics", "io",         "state",
                                 "run",     "writer",   "reader", "merge",    "trajectory", "c",
                                 "tools",   "tests",    "fuzz",   "bench",    "python",     "cmake",
                                 "scripts", "examples", "spec"};
  for (const char* folder : folders) {
    for (const std::string& file : FilesBelow(folder)) {
      if (!IsText(file)) continue;
      const std::string text = ReadSource(file);
      for (size_t i = 0; i < text.size(); ++i) {
        const auto c = static_cast<unsigned char>(text[i]);
        const bool trailing = c == '\n' && i > 0 && text[i - 1] == ' ';
        if (c >= 0x7F || (c < 0x20 && c != '\n') || trailing) {
          FAIL_CHECK(file << ":" << LineOf(text, i) << ": byte " << static_cast<int>(c));
          break;
        }
      }
    }
  }
}

TEST_CASE("headers are guarded by their path") {
  for (const char* folder : {"include/dsckpt", "base", "format", "numerics", "io", "state", "run",
                             "writer", "reader", "merge", "trajectory", "c", "tools"}) {
    for (const std::string& file : FilesBelow(folder)) {
      if (!HasExtension(file, {".h"})) continue;
      std::string guard = file.starts_with("include/") ? file.substr(8) : "dsckpt/" + file;
      for (char& c : guard)
        c = isalnum(static_cast<unsigned char>(c)) ? static_cast<char>(toupper(c)) : '_';
      INFO(file << " should be guarded by " << guard << "_");
      CHECK(ReadSource(file).find("#ifndef " + guard + "_\n#define " + guard + "_\n") == 0);
    }
  }
}

TEST_CASE("the version stands in one place") {
  const std::string header = ReadSource("include/dsckpt/version.h");
  std::smatch numbers;
  REQUIRE(std::regex_search(
      header, numbers,
      std::regex(
          R"(_MAJOR (\d+)\n#define DSCKPT_VERSION_MINOR (\d+)\n#define DSCKPT_VERSION_PATCH (\d+))")));
  const std::string version = numbers.str(1) + "." + numbers.str(2) + "." + numbers.str(3);
  const std::regex literal("\\b" + std::regex_replace(version, std::regex(R"(\.)"), "\\.") + "\\b");
  // Its doc comment is the one other mention.
  CHECK(header.find('"' + version + '"') != std::string::npos);
  for (const char* folder :
       {"base", "format", "numerics", "io", "state", "run", "writer", "reader", "merge",
        "trajectory", "c", "tools", "bench", "examples", "cmake", "scripts", "python"}) {
    for (const std::string& file : FilesBelow(folder)) {
      if (!IsText(file)) continue;
      INFO(file << " repeats the version " << version);
      CHECK_FALSE(std::regex_search(CodeOnly(ReadSource(file)), literal));
    }
  }
  CHECK_FALSE(std::regex_search(ReadSource("CMakeLists.txt"), literal));
}
