#include "tests/tools/command.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "tests/support/catch.h"

namespace {

[[noreturn]] void Exec(const std::vector<std::string>& args, const std::vector<std::string>& env) {
  for (const std::string& variable : env) {
    const size_t equals = variable.find('=');
    setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, 1);
  }
  std::vector<char*> argv = {const_cast<char*>("dsckpt")};
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  execv(DSCKPT_TOOL, argv.data());
  _exit(127);
}

int Decode(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status); }

// Reads both ends until they close, so that neither pipe can fill up and block the tool.
void Drain(std::array<int, 2> fds, std::array<std::string*, 2> texts) {
  std::array<pollfd, 2> polls = {pollfd{fds[0], POLLIN, 0}, pollfd{fds[1], POLLIN, 0}};
  while (polls[0].fd >= 0 || polls[1].fd >= 0) {
    poll(polls.data(), polls.size(), -1);
    for (size_t i = 0; i < 2; ++i) {
      if (polls[i].fd < 0 || polls[i].revents == 0) continue;
      std::array<char, 65536> buffer;
      const ssize_t bytes = read(polls[i].fd, buffer.data(), buffer.size());
      if (bytes > 0) {
        texts[i]->append(buffer.data(), static_cast<size_t>(bytes));
      } else {
        close(polls[i].fd);
        polls[i].fd = -1;
      }
    }
  }
}

}  // namespace

Outcome RunTool(const std::vector<std::string>& args, const RunOptions& options) {
  std::array<int, 2> out, err;
  if (pipe2(out.data(), O_CLOEXEC) != 0 || pipe2(err.data(), O_CLOEXEC) != 0) return {};
  const pid_t pid = fork();
  if (pid == 0) {
    int target = out[1];
    if (!options.stdout_path.empty()) target = open(options.stdout_path.c_str(), O_WRONLY);
    dup2(target, 1);
    dup2(err[1], 2);
    for (const int fd : options.closed) close(fd);
    if (!options.directory.empty() &&
        (chdir(options.directory.c_str()) != 0 || rmdir(options.directory.c_str()) != 0)) {
      _exit(126);
    }
    Exec(args, options.setenv);
  }
  close(out[1]);
  close(err[1]);
  Outcome outcome;
  Drain({out[0], err[0]}, {&outcome.out, &outcome.err});
  outcome.code = WaitFor(pid);
  return outcome;
}

Outcome RunOk(const std::vector<std::string>& args) {
  Outcome outcome = RunTool(args);
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.code == 0);
  return outcome;
}

Outcome RunOnTerminal(const std::vector<std::string>& args, int columns,
                      const std::vector<std::string>& env) {
  winsize size{};
  size.ws_col = static_cast<unsigned short>(columns);
  size.ws_row = 40;
  int terminal = -1;
  const pid_t pid = forkpty(&terminal, nullptr, nullptr, &size);
  if (pid == 0) Exec(args, env);
  Outcome outcome;
  std::array<char, 4096> buffer;
  // The end of a terminal is an error (EIO), not an end of file.
  for (ssize_t bytes; (bytes = read(terminal, buffer.data(), buffer.size())) > 0;) {
    outcome.out.append(buffer.data(), static_cast<size_t>(bytes));
  }
  close(terminal);
  outcome.code = WaitFor(pid);
  return outcome;
}

pid_t StartTool(const std::vector<std::string>& args) {
  const pid_t pid = fork();
  if (pid == 0) {
    const int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd <= 2; ++fd) dup2(null, fd);
    Exec(args, {});
  }
  return pid;
}

bool HasEnded(pid_t pid) {
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT);
  return info.si_pid == pid;
}

int WaitFor(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return Decode(status);
}
