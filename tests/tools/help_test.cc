// What the program says of itself: help at every width, completion, manual pages.

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/command.h"

namespace {

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    while (line.ends_with('\r')) line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

/// The commands as the program lists them.
std::vector<std::string> CommandNames() {
  std::vector<std::string> names;
  bool listed = false;
  for (const std::string& line : Lines(RunOk({"--help"}).out)) {
    if (line.empty()) listed = false;
    if (listed && line[2] != ' ') names.push_back(line.substr(2, line.find(' ', 2) - 2));
    if (line == "Commands:") listed = true;
  }
  return names;
}

/// Runs `script` in a shell that may be missing; nothing then.
std::string InShell(const std::string& shell, const std::string& script) {
  TempDir dir;
  WriteWholeFile(dir / "script", script);
  const std::string command = "command -v " + shell + " >/dev/null || exit 0; " + shell + " " +
                              dir / "script" + " >" + dir / "out" + " 2>&1 || echo failed >>" +
                              dir / "out";
  REQUIRE(std::system(command.c_str()) == 0);
  if (!std::filesystem::exists(dir / "out")) return "";
  return ReadWholeFile(dir / "out");
}

}  // namespace

TEST_CASE("every command explains itself, with its exit codes") {
  const std::vector<std::string> names = CommandNames();
  CHECK(names.size() >= 10);
  for (const std::string& name : names) {
    const std::string help = RunOk({name, "--help"}).out;
    INFO(name);
    CHECK(Contains(help, "Usage: dsckpt " + name + " [OPTIONS]"));
    CHECK(Contains(help, "Examples:\n  "));
    CHECK(Contains(help, "\nExit code: 0 "));
    CHECK(Contains(help, "-q,--quiet"));
    CHECK(RunOk({"help", name}).out == help);
  }
  CHECK(RunOk({"help"}).out == RunOk({"--help"}).out);
}

TEST_CASE("help is wrapped to the terminal, and to 100 columns on a wider one") {
  std::vector<std::string> pages = CommandNames();
  pages.push_back("");
  for (const int columns : {40, 60, 80, 120, 200}) {
    for (const std::string& page : pages) {
      std::vector<std::string> args = {"--help"};
      if (!page.empty()) args.insert(args.begin(), page);
      size_t longest = 0;
      for (const std::string& line : Lines(RunOnTerminal(args, columns).out)) {
        INFO(columns << " " << page << ": " << line);
        // What has no space in it cannot be broken.
        const bool one_word = line.find(' ', line.find_first_not_of(' ')) == std::string::npos;
        CHECK((one_word || line.size() <= std::min<size_t>(static_cast<size_t>(columns), 100)));
        longest = std::max(longest, line.size());
      }
      if (columns == 200) CHECK(longest > 60);
    }
  }
}

TEST_CASE("a long example goes on as a shell reads it") {
  const std::string help = RunOnTerminal({"merge", "--help"}, 50).out;
  CHECK(Contains(help, "  dsckpt merge run/step-0000001200 -o model \\\r\n    --max-shard-size"));
}

TEST_CASE("quiet: the exit code alone, but errors are said") {
  TempDir dir;
  WriteWholeFile(dir / "text", "print('hello')\n");
  const Outcome failed = RunTool({"inspect", "-q", dir / "text"});
  CHECK(failed.code == 2);
  CHECK(failed.out.empty());
  CHECK(Contains(failed.err, "text"));
  const Outcome none = RunTool({"ls", "-q", dir.path()});
  CHECK(none.code == 1);
  CHECK(none.out.empty());
  CHECK(none.err.empty());
}

TEST_CASE("bash completes commands, options, values and files") {
  const std::string script = RunOk({"completion", "bash"}).out;
  const auto complete = [&](const std::string& words, int position) {
    return InShell("bash", script + "\nCOMP_WORDS=(" + words + ")\nCOMP_CWORD=" +
                               std::to_string(position) + "\n_dsckpt\necho \"${COMPREPLY[*]}\"\n");
  };
  CHECK(complete("dsckpt insp", 1) == "inspect\n");
  CHECK(complete("dsckpt help conv", 2) == "convert\n");
  CHECK(complete("dsckpt inspect --so", 2) == "--sort\n");
  CHECK(complete("dsckpt inspect --sort ''", 3) == "name size offset\n");
  CHECK(complete("dsckpt completion z", 2) == "zsh\n");
  TempDir dir;
  WriteWholeFile(dir / "some.dsckpt", "");
  CHECK(complete("dsckpt inspect " + dir / "som", 2) == dir / "some.dsckpt" + "\n");
  CHECK(complete("dsckpt merge -o " + dir / "som", 3) == dir / "some.dsckpt" + "\n");
}

TEST_CASE("fish completes the same, where it is installed") {
  const std::string script = RunOk({"completion", "fish"}).out;
  const auto complete = [&](const std::string& line) {
    return InShell("fish", script + "\ncomplete -C '" + line + "'\n");
  };
  if (InShell("fish", "echo there\n").empty()) return;
  CHECK(complete("dsckpt insp") ==
        "inspect\tShow what a file, checkpoint or run directory holds\n");
  CHECK(Contains(complete("dsckpt inspect --so"), "--sort"));
  CHECK(Contains(complete("dsckpt inspect --sort of"), "offset"));
  CHECK(Contains(complete("dsckpt help conv"), "convert"));
}

TEST_CASE("zsh takes its completion, where it is installed") {
  const std::string script = RunOk({"completion", "zsh"}).out;
  if (InShell("zsh", "echo there\n").empty()) return;
  CHECK(InShell("zsh", "autoload -U compinit && compinit -u -D\n" + script +
                           "\nprint $_comps[dsckpt]\n") == "_dsckpt\n");
}

TEST_CASE("manual pages: one for the program, one a command") {
  TempDir dir;
  RunOk({"help", "--manuals", dir.path()});
  CHECK(Contains(ReadWholeFile(dir / "dsckpt.1"), ".SH COMMANDS"));
  for (const std::string& name : CommandNames()) {
    const std::string page = ReadWholeFile(dir / ("dsckpt-" + name + ".1"));
    INFO(name);
    CHECK(page.starts_with(".TH DSCKPT\\-"));
    CHECK(Contains(page, "\n.SH SYNOPSIS\ndsckpt " + name));
    CHECK(Contains(page, "\n.TP\n\\fB\\-q, \\-\\-quiet\\fR\n"));
    CHECK(Contains(page, "Exit code: 0 "));
  }
  CHECK(RunTool({"help", "--manuals", dir / "missing"}).code == 2);
}
