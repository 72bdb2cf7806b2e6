// The dsckpt command: parses the command line, runs one command, reports.

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/version.h"
#include "tools/commands.h"
#include "tools/console.h"
#include "tools/text.h"

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

void AddCommonOptions(CLI::App& app, CommonOptions& options) {
  app.add_flag("--json", options.json, "Print the result as one JSON document");
  app.add_option("--color", options.color, "auto (default), always or never; NO_COLOR counts")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->option_text("WHEN");
}

// CLI11 prints nothing by itself: help goes to standard output, mistakes to standard error.
int ReportParse(Console& console, const CLI::App& root, const CLI::ParseError& error, bool json) {
  const auto chosen = root.get_subcommands();
  const std::string command = chosen.empty() ? "dsckpt" : "dsckpt " + chosen.back()->get_name();
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
    const bool version = dynamic_cast<const CLI::CallForVersion*>(&error) != nullptr;
    console.Write(version ? std::string(error.what()) + "\n" : root.help());
    return console.Finish(kExitOk);
  }
  CommonOptions options;
  options.json = json;
  console.Configure(options);
  const std::string what =
      chosen.empty() ? error.what() : chosen.back()->get_name() + ": " + error.what();
  const Status status(StatusCode::kInvalidArgument, what + " (see " + command + " --help)");
  return console.Finish(console.Fail(status));
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
Status UnknownCommand(const std::string& word, const std::vector<Command>& commands) {
  std::string nearest;
  size_t distance = 3;  // More is another word.
  for (const Command& command : commands) {
    const size_t found = Distance(word, command.app->get_name());
    if (found >= distance) continue;
    distance = found;
    nearest = command.app->get_name();
  }
  return Status(StatusCode::kInvalidArgument,
                "there is no command '" + Printable(word) + "'" +
                    (nearest.empty() ? "" : ": did you mean " + nearest + "?") +
                    " (see dsckpt --help)");
}

/// `help`, `help COMMAND` and `version` as people type them; words that are no command. Nothing:
/// parse as usual.
std::optional<int> AnswerWord(Console& console, const CLI::App& root,
                              const std::vector<Command>& commands,
                              const std::vector<std::string>& words, bool json) {
  if (words.empty() || words[0].empty() || words[0].starts_with('-')) return std::nullopt;
  const auto find = [&](const std::string& word) {
    return std::find_if(commands.begin(), commands.end(),
                        [&](const Command& c) { return c.app->get_name() == word; });
  };
  if (find(words[0]) != commands.end()) return std::nullopt;
  if (words[0] == "version") {
    console.Write(std::string("dsckpt ") + VersionString() + "\n");
    return console.Finish(kExitOk);
  }
  const bool help = words[0] == "help";
  if (help && words.size() == 1) {
    console.Write(root.help());
    return console.Finish(kExitOk);
  }
  const std::string& word = words[help ? 1 : 0];
  if (const auto command = find(word); command != commands.end()) {
    console.Write(command->app->help("dsckpt"));
    return console.Finish(kExitOk);
  }
  CommonOptions options;
  options.json = json;
  console.Configure(options);
  return console.Finish(console.Fail(UnknownCommand(word, commands)));
}

int Main(int argc, char** argv) {
  CLI::App root("Save, check and read checkpoints of training jobs.", "dsckpt");
  root.set_version_flag("-V,--version", std::string("dsckpt ") + VersionString(),
                        "Print the version and exit");
  root.require_subcommand(1);
  root.get_formatter()->column_width(24);
  root.get_formatter()->label("REQUIRED", "");
  root.get_formatter()->label("SUBCOMMAND", "COMMAND");
  root.get_formatter()->label("Subcommands", "Commands");
  root.footer(
      "Exit codes: 0 yes or done; 1 the answer is no (corrupt, truncated); 2 could not\n"
      "do it (usage, I/O, not a checkpoint). Each command explains itself, for example:\n"
      "  dsckpt inspect --help");
  CommonOptions options;
  const std::vector<Command> commands = {AddInspect(root), AddVerify(root), AddImport(root),
                                         AddExport(root),  AddMerge(root),  AddConvert(root),
                                         AddList(root),    AddHash(root)};
  for (const Command& command : commands) AddCommonOptions(*command.app, options);

  Console console;
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const bool json = std::find(words.begin(), words.end(), "--json") != words.end();
  if (const auto code = AnswerWord(console, root, commands, words, json)) return *code;
  try {
    root.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return ReportParse(console, root, error, json);
  }
  console.Configure(options);
  const auto chosen = std::find_if(commands.begin(), commands.end(),
                                   [](const Command& command) { return command.app->parsed(); });
  try {
    return console.Finish(chosen->run(console));
  } catch (const std::bad_alloc&) {
    return console.Finish(
        console.Fail(Status(StatusCode::kOutOfMemory, "not enough memory for this file")));
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
