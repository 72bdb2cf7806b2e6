#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dsckpt/version.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/command.h"
#include "tests/tools/samples.h"

using Json = nlohmann::ordered_json;

namespace {

struct Case {
  std::vector<std::string> args;
  int code;
  std::string out, err;  // Parts that must occur; empty: the stream must be empty.
};

void Check(const Case& c) {
  const Outcome outcome = RunTool(c.args);
  INFO((c.args.empty() ? "" : c.args[0]) << " ... " << (c.args.empty() ? "" : c.args.back()));
  INFO("stdout: " << outcome.out);
  INFO("stderr: " << outcome.err);
  CHECK(outcome.code == c.code);
  CHECK(c.out.empty() == outcome.out.empty());
  CHECK(c.err.empty() == outcome.err.empty());
  CHECK(Contains(outcome.out, c.out));
  CHECK(Contains(outcome.err, c.err));
}

}  // namespace

TEST_CASE("usage: help and version on stdout with 0, mistakes on stderr with 2") {
  TempDir dir;
  const std::string missing = dir / "missing";
  const std::vector<Case> cases = {
      {{"--version"}, 0, std::string("dsckpt ") + dsckpt::VersionString() + "\n", ""},
      {{"--help"}, 0, "inspect", ""},
      {{"inspect", "--help"}, 0, "dsckpt inspect step-1200.dsckpt --tree", ""},
      {{"verify", "--help"}, 0, "dsckpt verify --decode", ""},
      {{"import", "--help"}, 0, "dsckpt import model.safetensors -o model.dsckpt", ""},
      {{"merge", "--help"}, 0, "dsckpt merge run/step-0000001200 -o model.dsckpt", ""},
      {{"ls", "--help"}, 0, "dsckpt ls run", ""},
      {{"export", "--help"}, 0, "dsckpt export step-1200.dsckpt -o model.safetensors", ""},
      {{}, 2, "", "a command is missing (see dsckpt --help)"},
      {{"explode"}, 2, "", "there is no command 'explode' (see dsckpt --help)"},
      {{"insepct", "x"}, 2, "", "there is no command 'insepct': did you mean inspect?"},
      {{"lst"}, 2, "", "did you mean ls?"},
      {{"help"}, 0, "Usage: dsckpt", ""},
      {{"help", "inspect"}, 0, "Usage: dsckpt inspect", ""},
      {{"help", "explode"}, 2, "", "there is no command 'explode'"},
      {{"version"}, 0, std::string("dsckpt ") + dsckpt::VersionString() + "\n", ""},
      {{"-V"}, 0, std::string("dsckpt ") + dsckpt::VersionString() + "\n", ""},
      {{"inspect"}, 2, "", "dsckpt inspect --help"},
      {{"export", "a", "b", "-o", "c"}, 2, "", "one argument too many: 'b'"},
      {{"inspect", missing, "--sort", "colour"}, 2, "", "--sort: takes one of name, size, offset"},
      {{"inspect", missing, "--fliter", "a"}, 2, "", "'--fliter': did you mean --filter?"},
      {{"inspect", missing, "--filter"}, 2, "", "--filter takes a value: --filter GLOB"},
      {{"verify", missing, "--threads", "x"}, 2, "", "a whole number from 0 to 1024, not 'x'"},
      {{"inspect", missing, "--limit", "-1"}, 2, "", "--limit: takes a whole number from 0"},
      {{"inspect", missing, "--limit", "x"}, 2, "", "takes a whole number from 0, not 'x'"},
      {{"inspect", missing, "--color", "sometimes"}, 2, "", "--color"},
      {{"verify"}, 2, "", "verify"},
      {{"verify", missing, "--threads", "-1"}, 2, "", "--threads"},
      {{"import", missing}, 2, "", "--output"},
      {{"import", missing, "-o", dir / "out", "--encoding", "gzip"}, 2, "", "--encoding"},
      {{"inspect", missing}, 2, "", missing},
      {{"verify", missing}, 2, "", missing},
      {{"import", missing, "-o", dir / "out"}, 2, "", missing},
      {{"export", missing, "-o", dir / "out"}, 2, "", missing},
      {{"inspect", dir.path()}, 1, "", dir.path() + ": no complete checkpoint"},
      {{"verify", dir.path()}, 1, "", dir.path() + ": no complete checkpoint"},
      {{"ls", dir.path()}, 1, "", dir.path() + ": no complete checkpoint"},
      {{"ls", missing}, 2, "", missing},
      {{"merge", missing}, 2, "", "--output"},
      {{"merge", missing, "-o", dir / "out"}, 2, "", missing},
      {{"merge", missing, "-o", dir / "out", "--shards", "0"}, 2, "", "--shards"},
      {{"merge", missing, "-o", dir / "out", "--max-shard-size", "1x"},
       2,
       "",
       "--max-shard-size: takes a size such as 5GB or 512MiB, not '1x'"},
      {{"merge", missing, "-o", dir / "out", "--shards", "2", "--max-shard-size", "1GB"},
       2,
       "",
       "--max-shard-size"},
  };
  for (const Case& c : cases) Check(c);
}

TEST_CASE("errors with --json are a dsckpt.error/1 document as well as a message") {
  TempDir dir;
  WriteWholeFile(dir / "cut",
                 Safetensors(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})", "1234"));
  struct ErrorCase {
    std::vector<std::string> args;
    int code;
    std::string name;
    Json path;
  };
  const std::vector<ErrorCase> cases = {
      {{"inspect", "--json", dir / "missing"}, 2, "NotFound", dir / "missing"},
      {{"inspect", "--json", dir / "cut"}, 1, "Truncated", dir / "cut"},
      {{"export", "--json", dir / "cut", "-o", dir / "out"}, 1, "Truncated", dir / "cut"},
      {{"import", "--json", dir / "cut", "-o", dir / "out"}, 1, "Truncated", dir / "cut"},
      {{"inspect", "--json"}, 2, "InvalidArgument", nullptr},
  };
  for (const ErrorCase& c : cases) {
    const Outcome outcome = RunTool(c.args);
    INFO(c.args[0] << " " << c.args.back() << ": " << outcome.out << outcome.err);
    CHECK(outcome.code == c.code);
    CHECK_FALSE(outcome.err.empty());
    const Json json = Json::parse(outcome.out);
    CHECK(json["schema"] == "dsckpt.error/1");
    CHECK(json["code"] == c.name);
    CHECK(json["path"] == c.path);
    CHECK(json["message"].is_string());
    CHECK(json.contains("offset"));
    CHECK(json.size() == 5);
  }
}

TEST_CASE("foreign files are named as what they are") {
  TempDir dir;
  struct Foreign {
    std::string bytes, name;
  };
  const std::vector<Foreign> foreign = {
      {std::string("\x80\x02}q\x00.", 6) + Counting(300), "pickle"},
      {"PK\x03\x04" + Counting(300), "zip"},
      {std::string("GGUF\x03\0\0\0", 8) + Counting(300), "GGUF"},
      {"\x89HDF\r\n\x1a\n" + Counting(300), "HDF5"},
      {"", "empty"},
      {"print('hello')\nprint('world')\n", "this is text"},
  };
  for (const Foreign& file : foreign) {
    const std::string path = dir / "foreign";
    WriteWholeFile(path, file.bytes);
    for (const std::string command : {"inspect", "verify", "import", "export"}) {
      std::vector<std::string> args = {command, path};
      if (command == "import" || command == "export") args.insert(args.end(), {"-o", dir / "out"});
      Check({args, 2, "", file.name});
    }
  }
}

TEST_CASE("a result that cannot be written is a failure, a reader that left is none") {
  TempDir dir;
  const std::string path = dir / "a.safetensors";
  WriteWholeFile(path,
                 Safetensors(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "1234"));
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"inspect", path}, {"verify", "--json", path}, {"--help"}}) {
    const Outcome full = RunTool(args, {.stdout_path = "/dev/full"});
    CHECK(full.code == 2);
    CHECK(Contains(full.err, "standard output: No space left on device"));
    CHECK(RunTool(args, {.closed = {1}}).code == 2);
  }
  // With descriptor 1 free, the output file must not become standard output.
  const Outcome closed = RunTool({"import", path, "-o", dir / "b.dsckpt"}, {.closed = {0, 1, 2}});
  CHECK(closed.code == 2);
  CHECK(RunTool({"verify", dir / "b.dsckpt"}).code == 0);
}

TEST_CASE("colours and progress: only on a terminal, unless asked for") {
  TempDir dir;
  const std::string path = dir / "a.dsckpt";
  WriteSample(path);
  const std::string escape = "\033[";
  CHECK_FALSE(Contains(RunTool({"inspect", path}).out, escape));
  CHECK(Contains(RunTool({"inspect", path, "--color", "always"}).out, escape));
  const RunOptions no_color = {.setenv = {"NO_COLOR=1"}};
  CHECK(Contains(RunTool({"inspect", path, "--color", "always"}, no_color).out, escape));

  const std::vector<std::string> xterm = {"TERM=xterm"};
  const std::vector<std::string> plain = {"TERM=xterm", "NO_COLOR=1"};
  CHECK(Contains(RunOnTerminal({"inspect", path}, 80, xterm).out, escape));
  CHECK_FALSE(Contains(RunOnTerminal({"inspect", path}, 80, plain).out, escape));
  CHECK_FALSE(Contains(RunOnTerminal({"inspect", path}, 80, {"TERM=dumb"}).out, escape));
  CHECK_FALSE(
      Contains(RunOnTerminal({"inspect", path, "--color", "never"}, 80, xterm).out, escape));
  CHECK(RunTool({"verify", path}).err.empty());
}
