#include "merge/select/rename.h"

#include <sys/resource.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "base/unicode.h"

namespace dsckpt::merge {

namespace {

Status Invalid(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}

/// Looking for ".*x" at every place of a name of 4,096 bytes takes 60 million, in half a second.
constexpr uint64_t kMaxSteps = 150'000'000;

struct TooMuch : std::exception {
  explicit TooMuch(const char* text) : why(text) {}
  const char* what() const noexcept override { return why; }
  const char* why;
};

/// The matcher's way through one name. It recurses on the stack, once or more a character.
class Budget {
 public:
  Budget() {
    rlimit limit{};
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur / 2 < stack_) {
      stack_ = static_cast<uintptr_t>(limit.rlim_cur / 2);
    }
  }
  void Step() {
    if (++steps_ > kMaxSteps) throw TooMuch("takes too many steps");
    const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    if (base_ > here && base_ - here > stack_) throw TooMuch("nests too deep");
  }

 private:
  uint64_t steps_ = 0;
  uintptr_t stack_ = uintptr_t{4} << 20;
  const uintptr_t base_ = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
};

/// Walks a name and counts: the only way to stop std::regex.
class CountedIterator {
 public:
  using iterator_category = std::bidirectional_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountedIterator() = default;
  CountedIterator(const char* at, Budget& budget) : at_(at), budget_(&budget) {}
  reference operator*() const {
    budget_->Step();
    return *at_;
  }
  CountedIterator& operator++() {
    budget_->Step();
    ++at_;
    return *this;
  }
  CountedIterator& operator--() {
    budget_->Step();
    --at_;
    return *this;
  }
  CountedIterator operator++(int) {
    const CountedIterator before = *this;
    ++*this;
    return before;
  }
  CountedIterator operator--(int) {
    const CountedIterator before = *this;
    --*this;
    return before;
  }
  friend bool operator==(const CountedIterator& a, const CountedIterator& b) {
    // Branches without a character compare places alone.
    if (a.budget_ != nullptr) a.budget_->Step();
    return a.at_ == b.at_;
  }

 private:
  const char* at_ = nullptr;
  Budget* budget_ = nullptr;
};

/// sed's \1 and & in the words of the library, where '$' is special.
std::string Replacement(const std::string& sed) {
  std::string out;
  for (size_t i = 0; i < sed.size(); ++i) {
    if (sed[i] == '\\' && i + 1 < sed.size()) {
      ++i;
      const bool group = sed[i] >= '0' && sed[i] <= '9';
      if (group) out += "$0";
      out += sed[i];
    } else if (sed[i] == '&') {
      out += "$&";
    } else if (sed[i] == '$') {
      out += "$$";
    } else {
      out += sed[i];
    }
  }
  return out;
}

}  // namespace

Result<Rename> Rename::Parse(const std::string& text) {
  const auto wrong = [&](const std::string& why) {
    return Invalid("rename takes s/RE/NEW/, not " + QuotedName(text) + ": " + why);
  };
  if (text.size() < 2 || text[0] != 's') return wrong("it does not begin with s/");
  std::vector<std::string> parts(1);
  for (size_t i = 2; i < text.size(); ++i) {
    if (text[i] == text[1]) {
      parts.emplace_back();
    } else {
      const bool escaped = text[i] == '\\' && i + 1 < text.size();
      // The delimiter stands for itself behind a backslash; all else is the expression's.
      if (escaped && text[i + 1] != text[1]) parts.back() += text[i];
      if (escaped) ++i;
      parts.back() += text[i];
    }
  }
  if (parts.size() != 3) return wrong("it needs three delimiters");
  if (!parts[2].empty() && parts[2] != "g") return wrong("after the last one stands g or nothing");
  if (parts[0].size() > kMaxNameBytes) return wrong("the expression has more than 4,096 bytes");
  Rename rename;
  rename.text_ = text;
  rename.all_ = parts[2] == "g";
  rename.with_ = Replacement(parts[1]);
  try {
    rename.expression_ = std::regex(parts[0]);
  } catch (const std::regex_error& error) {
    return wrong(error.what());
  }
  return rename;
}

Result<std::string> Rename::Apply(const std::string& name) const {
  const auto wrong = [&](const std::string& why) {
    return Invalid("rename " + FitWidth(TerminalName(text_), 200) + ": " + QuotedName(name) + ": " +
                   why);
  };
  if (name.size() > kMaxNameBytes) {
    return wrong("this name has " + std::to_string(name.size()) +
                 " bytes, and expressions take names of up to " + std::to_string(kMaxNameBytes) +
                 "; leave it out with exclude, or rename it before it is saved");
  }
  const auto first =
      all_ ? std::regex_constants::format_default : std::regex_constants::format_first_only;
  Budget budget;
  std::string renamed;
  try {
    std::regex_replace(std::back_inserter(renamed), CountedIterator(name.data(), budget),
                       CountedIterator(name.data() + name.size(), budget), expression_, with_,
                       first);
  } catch (const TooMuch& error) {
    return wrong(std::string("the expression ") + error.what() +
                 " on this name: write it more exactly, for example with [^/]* in the place of .* "
                 "and with ^ in front");
  } catch (const std::regex_error& error) {
    return wrong(error.what());
  }
  return renamed;
}

}  // namespace dsckpt::merge
