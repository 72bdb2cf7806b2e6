#include "tools/terminal/completion.h"

#include <vector>

namespace dsckpt::tools {
namespace {

std::string Join(const std::vector<std::string>& words, const std::string& between) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

std::vector<std::string> CommandNames(const ProgramPages& all) {
  std::vector<std::string> names;
  for (const CommandPage& page : all.pages) {
    if (!page.name.empty()) names.push_back(page.name);
  }
  return names;
}

std::vector<std::string> OptionNames(const CommandPage& page) {
  std::vector<std::string> names;
  for (const OptionPage& option : page.options) {
    if (!option.positional) names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

/// What may stand by position; empty: files.
std::vector<std::string> PositionChoices(const ProgramPages& all, const CommandPage& page) {
  for (const OptionPage& option : page.options) {
    if (!option.positional) continue;
    return option.names[0] == "COMMAND" ? CommandNames(all) : option.choices;
  }
  return {};
}

/// In single quotes, as all three shells read it; fish alone has escapes in them.
std::string Quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\"'\"'") : std::string(1, c);
  return out + "'";
}

std::string BashScript(const ProgramPages& all) {
  const std::string function = "_" + all.name;
  std::string out =
      function +
      "() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  local words=\n"
      "  COMPREPLY=()\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    words=" +
      Quoted(Join(CommandNames(all), " ") + " " + Join(OptionNames(all.pages.front()), " ")) +
      "\n  else\n    case ${COMP_WORDS[1]}:$before in\n";
  for (const CommandPage& page : all.pages) {
    for (const OptionPage& option : page.options) {
      if (page.name.empty() || option.positional || option.value.empty()) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : option.names) patterns.push_back(page.name + ":" + name);
      // Without choices: nothing but files.
      out += "      " + Join(patterns, "|") + ") " +
             (option.choices.empty() ? "COMPREPLY=($(compgen -f -- \"$word\")); return"
                                     : "words=" + Quoted(Join(option.choices, " "))) +
             " ;;\n";
    }
  }
  for (const CommandPage& page : all.pages) {
    if (page.name.empty()) continue;
    out += "      " + page.name + ":*) ";
    out += "if [[ $word == -* ]]; then words=" + Quoted(Join(OptionNames(page), " ")) +
           "; else words=" + Quoted(Join(PositionChoices(all, page), " ")) + "; fi ;;\n";
  }
  return out +
         "    esac\n"
         "  fi\n"
         "  if [[ -n $words ]]; then COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "  elif [[ $word != -* ]]; then COMPREPLY=($(compgen -f -- \"$word\")); fi\n"
         "}\n"
         "complete -o filenames -F " +
         function + " " + all.name + "\n";
}

/// A description inside of a specification of zsh's _arguments.
std::string ZshText(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string ZshOption(const OptionPage& option) {
  const std::string values = option.value.empty()     ? ""
                             : option.choices.empty() ? ":" + ZshText(option.value) + ":_files"
                                                      : ":" + ZshText(option.value) + ":(" +
                                                            Join(option.choices, " ") + ")";
  std::string out;
  for (const std::string& name : option.names) {
    out += " \\\n        " + Quoted("*" + name + "[" + ZshText(option.help) + "]" + values);
  }
  return out;
}

std::string ZshScript(const ProgramPages& all) {
  std::string out = "#compdef " + all.name + "\n_" + all.name +
                    "() {\n"
                    "  local -a commands\n"
                    "  commands=(\n";
  for (const CommandPage& page : all.pages) {
    if (!page.name.empty()) out += "    " + Quoted(page.name + ":" + ZshText(page.summary)) + "\n";
  }
  out +=
      "  )\n"
      "  if ((CURRENT == 2)); then\n"
      "    _describe command commands\n"
      "    return\n"
      "  fi\n"
      "  local command=$words[2]\n"
      "  shift words\n"
      "  ((CURRENT--))\n"
      "  case $command in\n";
  for (const CommandPage& page : all.pages) {
    if (page.name.empty()) continue;
    out += "    " + page.name + ")\n      _arguments";
    for (const OptionPage& option : page.options) {
      if (!option.positional) out += ZshOption(option);
    }
    const auto choices = PositionChoices(all, page);
    out += " \\\n        " +
           Quoted(choices.empty() ? "*:file:_files" : "*:word:(" + Join(choices, " ") + ")") +
           " ;;\n";
  }
  return out + "  esac\n}\nif [[ $funcstack[1] == _" + all.name + " ]]; then _" + all.name +
         " \"$@\"; else compdef _" + all.name + " " + all.name + "; fi\n";
}

std::string FishScript(const ProgramPages& all) {
  const std::string begin = "complete -c " + all.name + " -n ";
  std::string out;
  for (const CommandPage& page : all.pages) {
    const std::string when = page.name.empty() ? "__fish_use_subcommand"
                                               : "'__fish_seen_subcommand_from " + page.name + "'";
    if (!page.name.empty()) {
      out +=
          begin + "__fish_use_subcommand -f -a " + page.name + " -d " + Quoted(page.summary) + "\n";
    }
    for (const OptionPage& option : page.options) {
      if (option.positional) continue;
      out += begin + when;
      for (const std::string& name : option.names) {
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (!option.value.empty()) out += option.choices.empty() ? " -r" : " -x";
      if (!option.choices.empty()) out += " -a " + Quoted(Join(option.choices, " "));
      out += " -d " + Quoted(option.help) + "\n";
    }
    const auto choices = PositionChoices(all, page);
    if (!choices.empty()) out += begin + when + " -f -a " + Quoted(Join(choices, " ")) + "\n";
  }
  return out;
}

}  // namespace

std::string CompletionScript(const ProgramPages& pages, const std::string& shell) {
  return shell == "bash"  ? BashScript(pages)
         : shell == "zsh" ? ZshScript(pages)
                          : FishScript(pages);
}

}  // namespace dsckpt::tools
