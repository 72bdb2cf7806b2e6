#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/project/source_tree.h"
#include "tests/support/catch.h"

// No type that everything meets in, and no mutex that another file locks. Both are found in the
// text: what a macro makes is not seen, and a declaration that this file's patterns do not know is
// not counted. The sources are formatted by clang-format, which makes the patterns few.

namespace {

const char* const kLibrary[] = {"include", "base", "format", "numerics", "io",
                                "state",   "run",  "writer", "reader",   "merge",
                                "c",       "mpi",  "tools",  "bench",    "python/src"};

struct CountedType {
  std::string name;
  int members = 0;
};

// Whether `statement`, that of a type's body, declares data; then how many members.
int DataMembers(std::string statement) {
  // Attributes, templates' arguments and initialisers hold commas and brackets of their own.
  statement = std::regex_replace(statement, std::regex(R"(DSCKPT_GUARDED_BY\(\w+\))"), " ");
  statement = std::regex_replace(statement, std::regex(R"(\b(public|private|protected):)"), " ");
  for (std::string before; before != statement;) {
    before = statement;
    statement =
        std::regex_replace(statement, std::regex(R"(<[^<>]*>|\{[^{}]*\}|\[[^\[\]]*\])"), "");
  }
  if (std::regex_search(
          statement,
          std::regex(R"(^\s*(using|typedef|friend|static|template|enum|struct|class|union)\b)"))) {
    return 0;
  }
  // A value may be a call; a declarator with brackets is a function.
  int members = 0;
  std::istringstream parts(std::regex_replace(statement, std::regex(R"(\([^()]*\))"), "()"));
  for (std::string part; std::getline(parts, part, ',');) {
    const std::string declared = part.substr(0, part.find('='));
    if (declared.find('(') != std::string::npos) return 0;
    if (std::regex_search(declared, std::regex(R"(\w\s*$)"))) ++members;
  }
  const bool two_words =
      std::regex_search(statement, std::regex(R"(^\s*[\w:]+[\s\*&]+(\w|const\b))"));
  return two_words ? members : 0;
}

// Whether braces behind `statement` hold the value of a member, not the body of a function.
bool IsValueFor(const std::string& statement) {
  const std::string bare =
      std::regex_replace(statement, std::regex(R"(DSCKPT_GUARDED_BY\(\w+\))"), "");
  const size_t bracket = bare.find('(');
  const bool is_operator = bare.find("operator") != std::string::npos;
  return bracket == std::string::npos || (bare.find('=') < bracket && !is_operator);
}

// The types that `code` (CodeOnly) defines, with the data members that stand in each one's own
// body.
std::vector<CountedType> TypesOf(const std::string& code) {
  struct Open {
    bool is_type;
    CountedType type;
    std::string statement;
  };
  static const std::regex head(
      R"(\b(?:struct|class|union)\s+(?:DSCKPT_\w+\("*\s*"*\)\s*)?([\w:]+)[^;=()]*$)");
  std::vector<CountedType> types;
  std::vector<Open> open(1);
  for (const char c : code) {
    Open& top = open.back();
    if (c == '{') {
      std::smatch match;
      const bool is_type = std::regex_search(top.statement, match, head) &&
                           top.statement.find("enum") == std::string::npos;
      open.push_back({is_type, {is_type ? match.str(1) : "", 0}, ""});
    } else if (c == '}') {
      const bool was_type = top.is_type;
      if (was_type) types.push_back(top.type);
      if (open.size() > 1) open.pop_back();
      Open& outer = open.back();
      outer.statement = !was_type && IsValueFor(outer.statement) ? outer.statement + "{}" : "";
    } else if (c == ';') {
      if (top.is_type) top.type.members += DataMembers(top.statement);
      top.statement.clear();
    } else {
      top.statement += c;
    }
  }
  return types;
}

std::vector<std::string> Sources() {
  std::vector<std::string> sources;
  for (const char* folder : kLibrary) {
    for (const std::string& file : FilesBelow(folder)) {
      if (HasExtension(file, {".h", ".cc", ".cu"})) sources.push_back(file);
    }
  }
  return sources;
}

// Without the extension and what marks a header of internals: files of one name belong together.
std::string Stem(const std::string& file) {
  return std::regex_replace(file, std::regex(R"((_impl)?\.(h|cc)$)"), "");
}

}  // namespace

TEST_CASE("data members are counted") {
  const auto count = [](const std::string& body) {
    const auto types = TypesOf(CodeOnly("struct Some {\n" + body + "\n};\n"));
    for (const CountedType& type : types) {
      if (type.name == "Some") return type.members;
    }
    return -1;
  };
  CHECK(count("") == 0);
  CHECK(count("int a;\n  std::vector<std::pair<int, int>> b{1, 2};") == 2);
  CHECK(count("uint64_t a = 0, b = F(1, 2), c{0};") == 3);
  CHECK(count("const Key& key;\n  void* data = nullptr;\n  int64_t wide[3];") == 3);
  CHECK(count("std::function<Status(int, int)> f;\n  bool g DSCKPT_GUARDED_BY(mutex_) = false;") ==
        2);
  CHECK(count("int Get() const { return a; }\n  void Set(int a);\n  Some(int b) : a(b) {}") == 0);
  CHECK(count("static constexpr int kA = 1;\n  using T = int;\n  friend class Other;") == 0);
  CHECK(count("struct Inner {\n    int x, y;\n  };\n  Inner inner;\n private:\n  int own;") == 2);
  CHECK(count("std::map<int, Lane> a DSCKPT_GUARDED_BY(mutex_){1};\n  bool operator==(const Some&) "
              "const { return true; }\n  int b;") == 2);
  CHECK(count("enum class Kind { kA, kB };\n  Kind kind;") == 1);
}

TEST_CASE("no type has more than twenty data members") {
  constexpr int kMost = 20;
  int types = 0;
  for (const std::string& file : Sources()) {
    // Rows of the C API are flat: their size field is their version.
    if (file == "include/dsckpt/c.h" || file == "include/dsckpt/c_trajectory.h") continue;
    for (const CountedType& type : TypesOf(CodeOnly(ReadSource(file)))) {
      ++types;
      INFO(file << ": " << type.name << " has " << type.members << " data members");
      CHECK(type.members <= kMost);
    }
  }
  CHECK(types > 300);
}

TEST_CASE("a mutex is locked in the file that declares it, or the one beside its header") {
  const std::regex locked(
      R"(\b(?:MutexLock|lock_guard|unique_lock|scoped_lock)\s*(?:<[^>]*>)?\s+\w+\(([^,()]*(?:\(\))?[^,()]*)[,)])");
  const std::regex declared(R"(\b(?:Mutex|std::mutex)\s+(\w+))");
  std::map<std::string, std::set<std::string>> mutexes;  // By stem.
  for (const std::string& file : Sources()) {
    const std::string code = CodeOnly(ReadSource(file));
    for (std::sregex_iterator hit(code.begin(), code.end(), declared), end; hit != end; ++hit) {
      mutexes[Stem(file)].insert(hit->str(1));
    }
  }
  int locks = 0;
  for (const std::string& file : Sources()) {
    if (file == "base/mutex.h") continue;
    const std::string code = CodeOnly(ReadSource(file));
    for (std::sregex_iterator hit(code.begin(), code.end(), locked), end; hit != end; ++hit) {
      ++locks;
      const std::string what = hit->str(1);
      const size_t name = what.find_last_of(".>");
      INFO(file << " locks " << what);
      CHECK(mutexes[Stem(file)].count(name == std::string::npos ? what : what.substr(name + 1)) ==
            1);
    }
  }
  CHECK(locks > 80);
}
