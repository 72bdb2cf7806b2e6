#ifndef DSCKPT_TOOLS_TERMINAL_COMMAND_LINE_H_
#define DSCKPT_TOOLS_TERMINAL_COMMAND_LINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/terminal/help.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

// The only door to CLI11: a large header, which command_line.cc alone includes.

namespace dsckpt::tools {

/// An option or an argument that a command has declared. A view of it.
class Argument {
 public:
  explicit Argument(CLI::Option* option) : option_(option) {}

  Argument& Required();
  /// What stands in its value's place in the help text.
  Argument& Placeholder(const std::string& text);
  Argument& OneOf(const std::vector<std::string>& values);
  Argument& Within(int64_t low, int64_t high);
  /// A whole number from 0.
  Argument& FromZero();
  /// Bytes, as 5GB (powers of 1000) or 512MiB (of 1024).
  Argument& Size();
  /// It may be given again; each time it takes one value.
  Argument& Repeatable();
  /// Not together with `other`.
  Argument& Excludes(const Argument& other);

 private:
  CLI::Option* option_;
};

/// What one command takes. Values that are filled must live until the command has run. A view: the
/// Program owns it.
class CommandLine {
 public:
  explicit CommandLine(CLI::App* app) : app_(app) {}

  /// `names` as "-o,--output"; without dashes ("FILE"): an argument by its position.
  template <typename Value>
  Argument Add(const std::string& names, Value& value, const std::string& help);
  /// `parse` returns what is wrong with the text that was given, or nothing.
  Argument AddParsed(const std::string& names,
                     std::function<std::string(const std::string& text)> parse,
                     const std::string& help);
  Argument AddFlag(const std::string& names, bool& value, const std::string& help);
  /// Examples and the like, behind the options.
  void Footer(const std::string& text);

  std::string name() const;
  /// Whether an option of this name has been added.
  bool Has(const std::string& name) const;
  /// Whether it is the one that was given.
  bool chosen() const;

 private:
  CLI::App* app_;
};

/// The program's command line: one of several commands.
class Program {
 public:
  Program(const std::string& name, const std::string& version, const std::string& description,
          const std::string& footer);
  ~Program();

  CommandLine AddCommand(const std::string& name, const std::string& description);
  /// Everything that has been declared so far.
  ProgramPages Pages() const;

  /// What a command line asks for.
  struct Parsed {
    /// A command is to run; the rest is empty.
    bool run = false;
    /// Help was asked for: that of the command of this name; empty: of the program.
    std::optional<std::string> help;
    /// The version, which was asked for.
    std::string version;
    /// What is wrong with it.
    std::string mistake;
  };
  Parsed Parse(int argc, char** argv);

 private:
  std::string version_;
  std::unique_ptr<CLI::App> root_;
};

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_TERMINAL_COMMAND_LINE_H_
