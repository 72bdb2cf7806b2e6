#include "tools/terminal/help.h"

#include <algorithm>

#include "base/unicode.h"

namespace dsckpt::tools {
namespace {

constexpr size_t kNoTerminal = 80;
constexpr size_t kNarrowestText = 40;
constexpr size_t kWidestText = 100;
constexpr size_t kNameColumn = 24;

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

/// Words; with `quotes`, what stands in single quotes is one.
std::vector<std::string> Words(std::string_view text, bool quotes) {
  std::vector<std::string> words(1);
  bool inside = false;
  for (const char c : text) {
    if (quotes && c == '\'') inside = !inside;
    if (c != ' ' || inside) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

/// `first` stands before the first line, `rest` before the others; `join` ends broken lines.
std::string WrapWords(const std::vector<std::string>& words, const std::string& first,
                      const std::string& rest, std::string_view join, size_t width) {
  std::string out, line = first;
  bool empty = true;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t end = i + 1 < words.size() ? join.size() : 0;
    const size_t gap = empty ? 0 : 1;
    if (!empty && DisplayWidth(line) + gap + DisplayWidth(words[i]) + end > width) {
      out += line + std::string(join) + "\n";
      line = rest;
      empty = true;
    }
    line += (empty ? "" : " ") + words[i];
    empty = false;
  }
  return out + line + "\n";
}

/// Examples stay on lines of their own. A command that is too long goes on as a shell reads it.
std::string WrapExample(const std::string& line, size_t width) {
  if (DisplayWidth(line) <= width) return line + "\n";
  const std::string indent(line.find_first_not_of(' '), ' ');
  // A continued command stands further to the right than its first line.
  const bool command = line.starts_with("  dsckpt ") || indent.size() > 2;
  return WrapWords(Words(line, command), indent, indent + "  ", command ? " \\" : "", width);
}

/// Each a paragraph, or an example, or empty.
std::vector<std::string> Paragraphs(const std::string& text) {
  std::vector<std::string> parts;
  bool open = false;
  for (const std::string& line : Lines(text)) {
    const bool text_line = !line.empty() && line[0] != ' ';
    const bool begins = line.starts_with("Exit code") || line.starts_with("--json, schema");
    if (text_line && open && !begins) {
      parts.back() += " " + line;
    } else {
      parts.push_back(line);
    }
    open = text_line;
  }
  return parts;
}

std::string Names(const OptionPage& option, const char* between) {
  std::string text;
  for (const std::string& name : option.names) text += (text.empty() ? "" : between) + name;
  if (option.positional) return text + (option.many ? "..." : "");
  return text + (option.value.empty() ? "" : " " + option.value);
}

/// A name and what it is.
std::string Entry(const std::string& name, const std::string& help, size_t width) {
  const size_t column = width >= 2 * kNameColumn ? kNameColumn : 6;
  const std::string indent(column, ' ');
  std::string first = "  " + name;
  std::string out;
  if (DisplayWidth(first) + 1 < column) {
    first.resize(column, ' ');
  } else {
    out = first + "\n";
    first = indent;
  }
  return out + WrapWords(Words(help, false), first, indent, "", width);
}

std::string Entries(const CommandPage& page, bool positional, const char* heading, size_t width) {
  std::string out;
  for (const OptionPage& option : page.options) {
    if (option.positional == positional) out += Entry(Names(option, ","), option.help, width);
  }
  return out.empty() ? "" : "\n" + std::string(heading) + ":\n" + out;
}

/// Text as roff takes it: no request, no escape.
std::string Roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (out.empty() && (c == '.' || c == '\'')) out += "\\&";
    out += c == '\\' ? std::string("\\e") : c == '-' ? std::string("\\-") : std::string(1, c);
  }
  return out;
}

}  // namespace

std::string UsageText(const ProgramPages& pages, const CommandPage& page) {
  if (page.name.empty()) return pages.name + " [OPTIONS] COMMAND";
  std::string usage = pages.name + " " + page.name + " [OPTIONS]";
  for (const OptionPage& option : page.options) {
    if (!option.positional) continue;
    const std::string name = option.names[0];
    usage += " " + (option.required ? name : "[" + name + "]") + (option.many ? "..." : "");
  }
  return usage;
}

std::string HelpText(const ProgramPages& pages, const CommandPage& page, size_t width) {
  width = std::clamp(width == 0 ? kNoTerminal : width, kNarrowestText, kWidestText);
  std::string out = WrapWords(Words(page.summary, false), "", "", "", width);
  out += WrapWords(Words("Usage: " + UsageText(pages, page), false), "", "    ", "", width);
  out += Entries(page, true, "Arguments", width);
  out += Entries(page, false, "Options", width);
  if (page.name.empty()) {
    out += "\nCommands:\n";
    for (const CommandPage& command : pages.pages) {
      if (!command.name.empty()) out += Entry(command.name, command.summary, width);
    }
  }
  if (page.footer.empty()) return out;
  out += "\n";
  for (const std::string& part : Paragraphs(page.footer)) {
    out += part.empty()     ? "\n"
           : part[0] == ' ' ? WrapExample(part, width)
                            : WrapWords(Words(part, false), "", "", "", width);
  }
  return out;
}

std::string ManualPage(const ProgramPages& pages, const CommandPage& page) {
  const std::string name = pages.name + (page.name.empty() ? "" : "-" + page.name);
  std::string title = name;
  std::transform(title.begin(), title.end(), title.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  std::string out = ".TH " + Roff(title) + " 1 \"\" \"" + pages.name + " " + pages.version +
                    "\" \"User Commands\"\n.SH NAME\n" + Roff(name) + " \\- " + Roff(page.summary) +
                    "\n.SH SYNOPSIS\n" + Roff(UsageText(pages, page)) + "\n";
  const auto entry = [&](const std::string& term, const std::string& text) {
    out += ".TP\n\\fB" + Roff(term) + "\\fR\n" + Roff(text) + "\n";
  };
  out += ".SH OPTIONS\n";
  for (const OptionPage& option : page.options) entry(Names(option, ", "), option.help);
  if (page.name.empty()) {
    out += ".SH COMMANDS\n";
    for (const CommandPage& command : pages.pages) {
      if (!command.name.empty()) entry(command.name, command.summary);
    }
  }
  out += ".SH DESCRIPTION\n";
  for (const std::string& part : Paragraphs(page.footer)) {
    out += part.empty()     ? ".PP\n"
           : part[0] == ' ' ? ".nf\n" + Roff(part) + "\n.fi\n"
                            : Roff(part) + "\n.br\n";
  }
  return out;
}

size_t WordDistance(std::string_view a, std::string_view b) {
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

std::string NearestWord(std::string_view word, const std::vector<std::string>& words) {
  std::string nearest;
  size_t distance = 3;  // More is another word.
  for (const std::string& each : words) {
    const size_t found = WordDistance(word, each);
    if (found >= distance) continue;
    distance = found;
    nearest = each;
  }
  return nearest;
}

}  // namespace dsckpt::tools
