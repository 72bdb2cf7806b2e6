#ifndef DSCKPT_TOOLS_TERMINAL_SHORT_NAMES_H_
#define DSCKPT_TOOLS_TERMINAL_SHORT_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace dsckpt::tools {

/// Names of a listing that is too narrow for them. What all have in common goes first, so that
/// those that stand beside each other can be told apart.
class ShortNames {
 public:
  /// Every name once, before the first Fit().
  void Add(std::string_view name);

  /// The name in at most `width` columns: parts between '.' and '/' are left out, those of most
  /// names first, those with digits never, and the last one where it differs; what is still too
  /// long is cut in the middle. Two names become the same text only where no other cut helps.
  std::string Fit(std::string_view name, size_t width);

 private:
  /// A part of a name with the mark behind it.
  static std::vector<std::string_view> Parts(std::string_view name);
  std::string WithoutCommonParts(std::string_view name, size_t width, bool from_left) const;
  bool Taken(const std::string& text, std::string_view name);

  uint32_t names_ = 0;
  std::unordered_map<std::string, uint32_t> counts_;            // names with a part
  std::unordered_map<std::string, std::string> names_by_text_;  // what Fit() made, and of what
};

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_TERMINAL_SHORT_NAMES_H_
