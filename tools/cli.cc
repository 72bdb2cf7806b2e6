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
#include <string_view>
#include <vector>

#include "dsckpt/version.h"
#include "tools/commands.h"
#include "tools/terminal/console.h"
#include "tools/terminal/text.h"

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

/// Changes of one letter, or of two neighbours, that lead from one word to the other.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> steps(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        steps[i][j] = i + j;
        continue;
      }
      steps[i][j] = std::min(
          {steps[i - 1][j] + 1, steps[i][j - 1] + 1, steps[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        steps[i][j] = std::min(steps[i][j], steps[i - 2][j - 2] + 1);
      }
    }
  }
  return steps[a.size()][b.size()];
}

/// For a first word that is no command.
std::string UnknownCommand(const std::string& word, const std::vector<Command>& commands) {
  std::string nearest;
  size_t distance = 3;  // More is another word.
  for (const Command& command : commands) {
    const size_t found = Distance(word, command.line.name());
    if (found >= distance) continue;
    distance = found;
    nearest = command.line.name();
  }
  return "there is no command '" + TerminalName(word) + "'" +
         (nearest.empty() ? "" : ": did you mean " + nearest + "?") + " (see dsckpt --help)";
}

/// `help`, `help COMMAND` and `version` as people type them; words that are no command. Nothing:
/// parse as usual.
std::optional<int> AnswerWord(Console& console, const Program& program,
                              const std::vector<Command>& commands,
                              const std::vector<std::string>& words, bool json) {
  if (words.empty() || words[0].empty() || words[0].starts_with('-')) return std::nullopt;
  const auto find = [&](const std::string& word) {
    return std::find_if(commands.begin(), commands.end(),
                        [&](const Command& c) { return c.line.name() == word; });
  };
  if (find(words[0]) != commands.end()) return std::nullopt;
  if (words[0] == "version") {
    console.Write(std::string("dsckpt ") + VersionString() + "\n");
    return console.Finish(kExitOk);
  }
  const bool help = words[0] == "help";
  if (help && words.size() == 1) {
    console.Write(program.Help());
    return console.Finish(kExitOk);
  }
  const std::string& word = words[help ? 1 : 0];
  if (const auto command = find(word); command != commands.end()) {
    console.Write(command->line.Help());
    return console.Finish(kExitOk);
  }
  return FailUsage(console, UnknownCommand(word, commands), json);
}

int Main(int argc, char** argv) {
  Program program(
      "dsckpt", VersionString(), "Save, check and read checkpoints of training jobs.",
      "Exit codes: 0 yes or done; 1 the answer is no (corrupt, truncated); 2 could not\n"
      "do it (usage, I/O, not a checkpoint). Of a run, RUN@1200 is the checkpoint of a step,\n"
      "RUN@latest the one to resume from, and RUN@-2 the second from the end.\n"
      "Each command explains itself, for example:\n"
      "  dsckpt inspect --help");
  CommonOptions options;
  const std::vector<Command> commands = {
      AddInspect(program), AddVerify(program), AddImport(program),
      AddExport(program),  AddMerge(program),  AddConvert(program),
      AddList(program),    AddHash(program),   AddTrace(program)};
  for (const Command& command : commands) AddCommonOptions(command.line, options);

  Console console;
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const bool json = std::find(words.begin(), words.end(), "--json") != words.end();
  if (const auto code = AnswerWord(console, program, commands, words, json)) return *code;
  const Program::Parsed parsed = program.Parse(argc, argv);
  if (!parsed.mistake.empty()) return FailUsage(console, parsed.mistake, json);
  if (!parsed.run) {
    console.Write(parsed.answer);
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
