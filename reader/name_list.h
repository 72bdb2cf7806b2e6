#ifndef DSCKPT_READER_NAME_LIST_H_
#define DSCKPT_READER_NAME_LIST_H_

// Names for an error message.

#include <cstddef>
#include <string>
#include <string_view>

#include "format/names.h"

namespace dsckpt::reader {

/// Names for an error message: the first few, and how many more.
class NameList {
 public:
  void Add(std::string_view name, const std::string& why = {}) {
    if (count_++ >= kListed) return;
    if (count_ > 1) text_.append(", ");
    text_.append("'").append(format::Printable(name)).append("'");
    if (!why.empty()) text_.append(" (").append(why).append(")");
  }
  bool empty() const { return count_ == 0; }
  std::string Text() const {
    return count_ <= kListed ? text_ : text_ + " and " + std::to_string(count_ - kListed) + " more";
  }
  /// Appends "; " where needed, `what` and the names to `message`, unless there are none.
  void Say(const char* what, std::string& message) const {
    if (empty()) return;
    if (!message.empty()) message += "; ";
    message.append(what).append(Text());
  }

 private:
  static constexpr size_t kListed = 10;
  size_t count_ = 0;
  std::string text_;
};

}  // namespace dsckpt::reader

#endif  // DSCKPT_READER_NAME_LIST_H_
