// dsckpt help and dsckpt completion: what the program says of itself.

#include "tools/terminal/help.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tools/commands.h"
#include "tools/terminal/completion.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

struct Options {
  std::string command;
  std::string manuals;  // directory; empty: print
};

int WriteManuals(Console& console, const ProgramPages& all, const std::string& directory) {
  for (const CommandPage& page : all.pages) {
    const std::string path =
        directory + "/" + all.name + (page.name.empty() ? "" : "-" + page.name) + ".1";
    std::ofstream out(path, std::ios::binary);
    out << ManualPage(all, page);
    if (!out.flush()) {
      return console.Fail(
          Status(StatusCode::kIoError, "cannot write " + path).WithErrno(errno).WithPath(path));
    }
  }
  console.Print("{}: {}\n", SafeText(directory), Count(all.pages.size(), "manual page"));
  return kExitOk;
}

int Help(Console& console, const ProgramPages& all, const Options& options) {
  if (!options.manuals.empty()) return WriteManuals(console, all, options.manuals);
  const auto page = std::find_if(all.pages.begin(), all.pages.end(), [&](const CommandPage& each) {
    return each.name == options.command;
  });
  if (page == all.pages.end()) return console.Fail(UnknownCommand(all, options.command));
  console.Write(HelpText(all, *page, console.out_width()));
  return kExitOk;
}

}  // namespace

Status UnknownCommand(const ProgramPages& all, const std::string& word) {
  std::vector<std::string> names;
  for (const CommandPage& page : all.pages) names.push_back(page.name);
  const std::string nearest = NearestWord(word, names);
  return Status(StatusCode::kInvalidArgument,
                "there is no command '" + TerminalName(word) + "'" +
                    (nearest.empty() ? "" : ": did you mean " + nearest + "?") + " (see " +
                    all.name + " --help)");
}

Command AddHelp(Program& program) {
  auto options = std::make_shared<Options>();
  CommandLine line = program.AddCommand("help", "Explain a command, as its --help does");
  line.Add("COMMAND", options->command, "A command; without one: what commands there are");
  line.Add("--manuals", options->manuals, "Write all of it as manual pages into a directory")
      .Placeholder("DIR");
  line.Footer(
      "Examples:\n"
      "  dsckpt help inspect\n"
      "  dsckpt help --manuals ~/.local/share/man/man1\n"
      "\n"
      "Exit code: 0 done; 2 could not do it.");
  return {line, [options, &program](Console& console) {
            return Help(console, program.Pages(), *options);
          }};
}

Command AddCompletion(Program& program) {
  auto shell = std::make_shared<std::string>();
  CommandLine line =
      program.AddCommand("completion", "Print what makes a shell complete commands and options");
  line.Add("SHELL", *shell, "bash, zsh or fish").Required().OneOf({"bash", "zsh", "fish"});
  line.Footer(
      "Examples:\n"
      "  source <(dsckpt completion bash)\n"
      "  dsckpt completion bash > ~/.local/share/bash-completion/completions/dsckpt\n"
      "  dsckpt completion zsh > \"${fpath[1]}/_dsckpt\"\n"
      "  dsckpt completion fish > ~/.config/fish/completions/dsckpt.fish\n"
      "\n"
      "Exit code: 0 done; 2 could not do it.");
  return {line, [shell, &program](Console& console) {
            console.Write(CompletionScript(program.Pages(), *shell));
            return kExitOk;
          }};
}

}  // namespace dsckpt::tools
