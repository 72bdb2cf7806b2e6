// The dsckpt command: parses the command line, runs one command, reports.

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "dsckpt/version.h"
#include "tools/commands.h"
#include "tools/terminal/console.h"

namespace dsckpt::tools {
namespace {

// A descriptor 0, 1 or 2 that the caller closed would be given to the next file opened, and
// messages would be written into a checkpoint. Read-only for 1, so that results still fail to be
// written.
void OccupyStandardDescriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (fcntl(fd, F_GETFD) == -1 && errno == EBADF) {
      (void)open("/dev/null", fd == 2 ? O_WRONLY : O_RDONLY);
    }
  }
}

void AddCommonOptions(CommandLine line, CommonOptions& options) {
  line.AddFlag("--json", options.json, "Print the result as one JSON document");
  // A command may have one that leaves out less.
  if (!line.Has("--quiet")) {
    line.AddFlag("-q,--quiet", options.quiet, "Print errors alone: the exit code is the answer");
  }
  line.Add("--color", options.color, "auto (default), always or never; NO_COLOR counts")
      .OneOf({"auto", "always", "never"})
      .Placeholder("WHEN");
}

/// `mistake`: what is wrong with the command line.
int FailUsage(Console& console, const std::string& mistake, bool json) {
  CommonOptions options;
  options.json = json;
  console.Configure(options);
  return console.Finish(console.Fail(Status(StatusCode::kInvalidArgument, mistake)));
}

/// `version` as people type it, and words that are no command. Nothing: parse as usual.
std::optional<int> AnswerWord(Console& console, const ProgramPages& pages, const std::string& word,
                              bool json) {
  if (word.empty() || word.starts_with('-')) return std::nullopt;
  const bool known = std::any_of(pages.pages.begin(), pages.pages.end(),
                                 [&](const CommandPage& page) { return page.name == word; });
  if (known) return std::nullopt;
  if (word != "version") {
    return FailUsage(console, UnknownCommand(pages, word).message(), json);
  }
  console.Write(pages.name + " " + pages.version + "\n");
  return console.Finish(kExitOk);
}

int AnswerHelp(Console& console, const ProgramPages& pages, const std::string& name) {
  const auto page = std::find_if(pages.pages.begin(), pages.pages.end(),
                                 [&](const CommandPage& each) { return each.name == name; });
  console.Write(HelpText(pages, *page, console.out_width()));
  return console.Finish(kExitOk);
}

int Main(int argc, char** argv) {
  Program program(
      "dsckpt", VersionString(), "Save, check and read checkpoints of training jobs.",
      "Exit codes: 0 yes or done; 1 the answer is no (corrupt, truncated); 2 could not\n"
      "do it (usage, I/O, not a checkpoint). Of a run, RUN@1200 is the checkpoint of a step,\n"
      "RUN@latest the one to resume from, and RUN@-2 the second from the end.\n"
      "Each command explains itself, for example:\n"
      "  dsckpt help inspect");
  CommonOptions options;
  const std::vector<Command> commands = {
      AddInspect(program), AddVerify(program),   AddImport(program),  AddExport(program),
      AddMerge(program),   AddConvert(program),  AddList(program),    AddHash(program),
      AddStats(program),   AddDiff(program),     AddTrace(program),   AddReport(program),
      AddGram(program),    AddAverage(program),  AddExtract(program), AddCat(program),
      AddEdit(program),    AddRollback(program), AddHelp(program),    AddCompletion(program)};
  for (const Command& command : commands) AddCommonOptions(command.line, options);

  Console console;
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const bool json = std::find(words.begin(), words.end(), "--json") != words.end();
  if (!words.empty()) {
    if (const auto code = AnswerWord(console, program.Pages(), words[0], json)) return *code;
  }
  const Program::Parsed parsed = program.Parse(argc, argv);
  if (!parsed.mistake.empty()) return FailUsage(console, parsed.mistake, json);
  if (parsed.help) return AnswerHelp(console, program.Pages(), *parsed.help);
  if (!parsed.run) {
    console.Write(parsed.version + "\n");
    return console.Finish(kExitOk);
  }
  console.Configure(options);
  const auto chosen = std::find_if(commands.begin(), commands.end(),
                                   [](const Command& command) { return command.line.chosen(); });
  try {
    return console.Finish(chosen->run(console));
  } catch (const std::bad_alloc&) {
    return console.Finish(
        console.Fail(Status(StatusCode::kOutOfMemory, "not enough memory for this file")));
  } catch (const std::exception& error) {  // Of the standard library: no thread, no directory.
    return console.Finish(console.Fail(Status(StatusCode::kIoError, error.what())));
  }
}

}  // namespace
}  // namespace dsckpt::tools

int main(int argc, char** argv) {
  dsckpt::tools::OccupyStandardDescriptors();
  setlocale(LC_CTYPE, "");
  // A reader that goes away (head) shows as EPIPE, and the exit code stays the answer.
  signal(SIGPIPE, SIG_IGN);
  return dsckpt::tools::Main(argc, argv);
}
