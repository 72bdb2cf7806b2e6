#include "tools/terminal/command_line.h"

#include <CLI/CLI.hpp>
#include <optional>
#include <utility>

namespace dsckpt::tools {

Argument& Argument::Required() {
  option_->required();
  return *this;
}

Argument& Argument::Placeholder(const std::string& text) {
  option_->option_text(text);
  return *this;
}

Argument& Argument::OneOf(const std::vector<std::string>& values) {
  option_->check(CLI::IsMember(values));
  return *this;
}

Argument& Argument::Within(int64_t low, int64_t high) {
  option_->check(CLI::Range(low, high));
  return *this;
}

Argument& Argument::FromZero() {
  // CLI11's own range would name both of its ends.
  constexpr size_t kDigits = 18;
  option_->check(CLI::Validator(
      [](std::string& text) {
        const bool digits = !text.empty() && text.size() <= kDigits &&
                            text.find_first_not_of("0123456789") == std::string::npos;
        return digits ? std::string() : "takes a whole number from 0, not '" + text + "'";
      },
      "", "count"));
  return *this;
}

Argument& Argument::Size() {
  option_->transform(CLI::AsSizeValue(false));
  return *this;
}

Argument& Argument::Repeatable() {
  option_->allow_extra_args(false);
  return *this;
}

Argument& Argument::Excludes(const Argument& other) {
  option_->excludes(other.option_);
  return *this;
}

template <typename Value>
Argument CommandLine::Add(const std::string& names, Value& value, const std::string& help) {
  return Argument(app_->add_option(names, value, help));
}

template Argument CommandLine::Add(const std::string&, std::string&, const std::string&);
template Argument CommandLine::Add(const std::string&, std::vector<std::string>&,
                                   const std::string&);
template Argument CommandLine::Add(const std::string&, uint64_t&, const std::string&);
template Argument CommandLine::Add(const std::string&, int&, const std::string&);
template Argument CommandLine::Add(const std::string&, uint32_t&, const std::string&);
template Argument CommandLine::Add(const std::string&, std::optional<uint64_t>&,
                                   const std::string&);
template Argument CommandLine::Add(const std::string&, std::optional<int64_t>&, const std::string&);

Argument CommandLine::AddParsed(const std::string& names,
                                std::function<std::string(const std::string& text)> parse,
                                const std::string& help) {
  const auto take = [names, parse = std::move(parse)](const std::string& text) {
    const std::string wrong = parse(text);
    if (!wrong.empty()) throw CLI::ValidationError(names, wrong);
  };
  return Argument(app_->add_option_function<std::string>(names, take, help));
}

Argument CommandLine::AddFlag(const std::string& names, bool& value, const std::string& help) {
  return Argument(app_->add_flag(names, value, help));
}

void CommandLine::Footer(const std::string& text) { app_->footer(text); }
std::string CommandLine::name() const { return app_->get_name(); }
std::string CommandLine::Help() const { return app_->help("dsckpt"); }
bool CommandLine::chosen() const { return app_->parsed(); }

Program::Program(const std::string& name, const std::string& version,
                 const std::string& description, const std::string& footer)
    : root_(std::make_unique<CLI::App>(description, name)) {
  root_->set_version_flag("-V,--version", name + " " + version, "Print the version and exit");
  root_->require_subcommand(1);
  root_->get_formatter()->column_width(24);
  root_->get_formatter()->label("REQUIRED", "");
  root_->get_formatter()->label("SUBCOMMAND", "COMMAND");
  root_->get_formatter()->label("Subcommands", "Commands");
  root_->footer(footer);
}

Program::~Program() = default;

CommandLine Program::AddCommand(const std::string& name, const std::string& description) {
  return CommandLine(root_->add_subcommand(name, description));
}

std::string Program::Help() const { return root_->help(); }

Program::Parsed Program::Parse(int argc, char** argv) {
  Parsed parsed;
  try {
    root_->parse(argc, argv);
    parsed.run = true;
  } catch (const CLI::CallForVersion& version) {
    parsed.answer = std::string(version.what()) + "\n";
  } catch (const CLI::ParseError& error) {
    const auto chosen = root_->get_subcommands();
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
      parsed.answer = root_->help();
    } else {
      const std::string command = chosen.empty() ? "" : chosen.back()->get_name();
      parsed.mistake = (command.empty() ? "" : command + ": ") + error.what() + " (see " +
                       root_->get_name() + (command.empty() ? "" : " " + command) + " --help)";
    }
  }
  return parsed;
}

}  // namespace dsckpt::tools
