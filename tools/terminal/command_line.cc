#include "tools/terminal/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

namespace dsckpt::tools {
namespace {

constexpr char kBetweenChoices = '|';

std::vector<std::string> Choices(const std::string& text) {
  std::vector<std::string> choices;
  if (text.find(kBetweenChoices) == std::string::npos) return choices;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(kBetweenChoices, begin), text.size());
    choices.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return choices;
}

OptionPage PageOf(const CLI::Option& option) {
  OptionPage page;
  page.positional = option.get_positional();
  if (page.positional) {
    page.names.push_back(option.get_name(true));
  } else {
    for (const std::string& name : option.get_snames()) page.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) page.names.push_back("--" + name);
  }
  const std::string placeholder = option.get_option_text();
  page.many = page.positional && placeholder == "...";
  if (!page.positional && option.get_expected_max() != 0)
    page.value = placeholder.empty() ? "VALUE" : placeholder;
  page.help = option.get_description();
  page.required = option.get_required();
  page.choices = Choices(option.get_type_name());
  return page;
}

CommandPage PageOf(const CLI::App& app, const std::string& name) {
  CommandPage page;
  page.name = name;
  page.summary = app.get_description();
  page.footer = app.get_footer();
  for (const CLI::Option* const option : app.get_options()) page.options.push_back(PageOf(*option));
  return page;
}

/// The first word that looks like an option which does not exist, with the one that was meant.
std::string UnknownOption(const CommandPage& page, const std::vector<std::string>& words) {
  std::vector<std::string> known;
  for (const OptionPage& option : page.options) {
    if (option.positional) continue;
    known.insert(known.end(), option.names.begin(), option.names.end());
  }
  for (const std::string& whole : words) {
    if (whole.size() < 2 || whole[0] != '-') continue;
    const std::string word = whole.substr(0, whole.find('='));
    const bool there = std::find(known.begin(), known.end(), word) != known.end();
    const bool bundle =
        word[1] != '-' && std::find(known.begin(), known.end(), word.substr(0, 2)) != known.end();
    if (there || bundle) continue;
    const std::string nearest = word.size() > 3 ? NearestWord(word, known) : "";
    return "there is no option '" + word + "'" +
           (nearest.empty() ? "" : ": did you mean " + nearest + "?");
  }
  return "";
}

/// What is wrong, in words of this program.
std::string Mistake(const CLI::ParseError& error, const CommandPage& page,
                    const std::vector<std::string>& unexpected) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
      dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    if (std::string option = UnknownOption(page, unexpected); !option.empty()) return option;
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !unexpected.empty()) {
    return "one argument too many: '" + unexpected[0] + "'";
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && page.name.empty()) {
    return "say what to do: a command is missing";
  }
  const std::string text = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) == nullptr) return text;
  for (const OptionPage& option : page.options) {
    for (const std::string& name : option.names) {
      if (!text.starts_with(name + ":") || option.value.empty()) continue;
      return name + " takes a value: " + name + " " + option.value;
    }
  }
  return text;
}

}  // namespace

Argument& Argument::Required() {
  option_->required();
  return *this;
}

Argument& Argument::Placeholder(const std::string& text) {
  option_->option_text(text);
  return *this;
}

Argument& Argument::OneOf(const std::vector<std::string>& values) {
  option_->check(CLI::Validator(
      [values](std::string& text) {
        if (std::find(values.begin(), values.end(), text) != values.end()) return std::string();
        std::string all;
        for (const std::string& value : values) all += (all.empty() ? "" : ", ") + value;
        return "takes one of " + all + ", not '" + text + "'";
      },
      "", "choice"));
  // For PageOf().
  std::string all;
  for (const std::string& value : values) all += (all.empty() ? "" : "|") + value;
  option_->type_name(all);
  return *this;
}

Argument& Argument::Within(int64_t low, int64_t high) {
  option_->check(CLI::Validator(
      [low, high](std::string& text) {
        int64_t number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        const bool whole = error == std::errc() && end == text.data() + text.size();
        if (whole && number >= low && number <= high) return std::string();
        return "takes a whole number from " + std::to_string(low) + " to " + std::to_string(high) +
               ", not '" + text + "'";
      },
      "", "range"));
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
  option_->transform(CLI::Validator(
      [parse = CLI::AsSizeValue(false)](std::string& text) {
        const std::string given = text;
        try {
          if (parse(text).empty()) return std::string();
        } catch (const CLI::ValidationError&) {
          // It would name all of 24 units.
        }
        return "takes a size such as 5GB or 512MiB, not '" + given + "'";
      },
      "", "size"));
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
bool CommandLine::Has(const std::string& name) const {
  return app_->get_option_no_throw(name) != nullptr;
}
bool CommandLine::chosen() const { return app_->parsed(); }

Program::Program(const std::string& name, const std::string& version,
                 const std::string& description, const std::string& footer)
    : version_(version), root_(std::make_unique<CLI::App>(description, name)) {
  root_->set_version_flag("-V,--version", name + " " + version, "Print the version and exit");
  root_->require_subcommand(1);
  root_->footer(footer);
}

Program::~Program() = default;

CommandLine Program::AddCommand(const std::string& name, const std::string& description) {
  return CommandLine(root_->add_subcommand(name, description));
}

ProgramPages Program::Pages() const {
  ProgramPages all{root_->get_name(), version_, {PageOf(*root_, "")}};
  for (const CLI::App* const command : root_->get_subcommands({})) {
    all.pages.push_back(PageOf(*command, command->get_name()));
  }
  return all;
}

Program::Parsed Program::Parse(int argc, char** argv) {
  Parsed parsed;
  try {
    root_->parse(argc, argv);
    parsed.run = true;
  } catch (const CLI::CallForVersion& version) {
    parsed.version = version.what();
  } catch (const CLI::ParseError& error) {
    const auto chosen = root_->get_subcommands();
    const std::string command = chosen.empty() ? "" : chosen.back()->get_name();
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
      parsed.help = command;
    } else {
      const CLI::App& app = chosen.empty() ? *root_ : *chosen.back();
      const std::string what = Mistake(error, PageOf(app, command), root_->remaining(true));
      parsed.mistake = (command.empty() ? "" : command + ": ") + what + " (see " +
                       root_->get_name() + (command.empty() ? "" : " " + command) + " --help)";
    }
  }
  return parsed;
}

}  // namespace dsckpt::tools
