#ifndef DSCKPT_TESTS_TOOLS_COMMAND_H_
#define DSCKPT_TESTS_TOOLS_COMMAND_H_

#include <sys/types.h>

#include <string>
#include <vector>

// Runs the dsckpt binary as its users do.

struct Outcome {
  int code = -1;  ///< Exit code; -N when signal N ended it.
  std::string out, err;
};

struct RunOptions {
  std::string stdout_path = {};          ///< Instead of a pipe, e.g. "/dev/full".
  std::vector<int> closed = {};          ///< Descriptors that the command does not get.
  std::vector<std::string> setenv = {};  ///< "NAME=value".
  std::string directory = {};            ///< To run in; it is removed before the tool starts.
};

Outcome RunTool(const std::vector<std::string>& args, const RunOptions& options = {});

/// The same; fails the test unless it exits with 0.
Outcome RunOk(const std::vector<std::string>& args);

/// The same as RunTool() on a pseudo-terminal of `columns` columns as standard output and error;
/// both come back in `out`.
Outcome RunOnTerminal(const std::vector<std::string>& args, int columns,
                      const std::vector<std::string>& setenv = {});

/// Starts the tool without waiting; standard streams go to /dev/null.
pid_t StartTool(const std::vector<std::string>& args);
/// True once it has ended; WaitFor() is still due.
bool HasEnded(pid_t pid);
/// Exit code, or -signal.
int WaitFor(pid_t pid);

inline bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

#endif  // DSCKPT_TESTS_TOOLS_COMMAND_H_
