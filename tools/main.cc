// The dsckpt command: parses the command line, runs one command, reports.

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/version.h"
#include "tools/commands.h"
#include "tools/console.h"

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

int Main(int argc, char** argv) {
  CLI::App root("Save, check and read checkpoints of training jobs.", "dsckpt");
  root.set_version_flag("--version", std::string("dsckpt ") + VersionString(),
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
                                         AddList(root)};
  for (const Command& command : commands) AddCommonOptions(*command.app, options);

  Console console;
  try {
    root.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool json = std::any_of(
        argv, argv + argc, [](const char* word) { return std::string_view(word) == "--json"; });
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
