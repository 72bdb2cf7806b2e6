#ifndef DSCKPT_TOOLS_TERMINAL_HELP_H_
#define DSCKPT_TOOLS_TERMINAL_HELP_H_

// What commands take as plain data, and help texts of it.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dsckpt::tools {

/// An option or an argument of a command.
struct OptionPage {
  std::vector<std::string> names;    ///< "-o", "--output"; an argument by position: its name.
  std::string value;                 ///< What stands for its value; empty: it is a flag.
  std::string help;                  ///< One sentence.
  std::vector<std::string> choices;  ///< The values that it may have; empty: any.
  bool positional = false;
  bool required = false;
  bool many = false;  ///< By position: it takes any number of values.
};

/// A command, or the program as a whole.
struct CommandPage {
  std::string name;  ///< "inspect"; of the program as a whole: empty.
  std::string summary;
  std::vector<OptionPage> options;
  /// Paragraphs, with an empty line between them; lines that begin with spaces are kept as they
  /// are.
  std::string footer;
};

/// All that the program takes. The first page is that of the program as a whole.
struct ProgramPages {
  std::string name, version;
  std::vector<CommandPage> pages;
};

/// The help of one of `pages`. Text is wrapped to `width` columns, and to at most 100, behind which
/// lines are hard to read; 0: no terminal.
std::string HelpText(const ProgramPages& pages, const CommandPage& page, size_t width);

/// The same as a manual page in roff, of section 1.
std::string ManualPage(const ProgramPages& pages, const CommandPage& page);

/// "inspect [OPTIONS] PATH...".
std::string UsageText(const ProgramPages& pages, const CommandPage& page);

/// Changes of one letter, or of two neighbours, that lead from one word to the other.
size_t WordDistance(std::string_view a, std::string_view b);

/// Which of `words` somebody meant who typed `word`: one at a distance below 3. Empty: none.
std::string NearestWord(std::string_view word, const std::vector<std::string>& words);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_TERMINAL_HELP_H_
