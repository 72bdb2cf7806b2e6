#!/usr/bin/env python3
"""documented_headers.py finds what has no documentation in a header that shows all kinds of declarations."""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from documented_headers import Header

SAMPLE = r"""
#define HIDDEN_H_
/* Not documentation: { */
namespace MACRO dsckpt {
/// Documented.
class A {
 public:
  A();
  explicit A(int missing_1);
  int missing_2() const;
  /// Documented, as is its overload.
  void Overloaded(int a = 3, std::vector<int> b = {}) {
    if (a == '{') Call("}");  // }
  }
  void Overloaded();
  bool operator==(const A&) const = default;
  /// Documented.
  int field = 0;
  int missing_3{2};
  std::function<void(int, std::pair<int, int>)> missing_4 = {};
  struct Impl;  // Internal.
  // Internal: for somebody else.
  explicit A(Impl* impl);

  enum class missing_5 : int { kA, kB = 2 };

 private:
  int hidden_;
};
/// A comment with an empty line behind it belongs to nothing.

constexpr int missing_6 = 5;
template <typename T>
T missing_7(const T& x) {
  return x;
}
/// Documented.
template <>
inline constexpr int kSpecial<bool> = 1;
template <>
inline constexpr int kSpecial<int> = 2;
using missing_8 = std::function<int(int)>;
namespace things_internal {
int Hidden();
}
}  // namespace dsckpt
extern "C" {
typedef struct missing_9 missing_9;
/// Documented.
typedef struct c_struct {
  int32_t trailing;  ///< Documented.
  void (*missing_10)(void* user, int);
} c_struct;
int missing_11(const c_struct* a);
}
#define MISSING_12(x) \
  x
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.h"
        path.write_text(SAMPLE)
        found = [name.split("::")[-1].lower() for _, name in Header(path).check()]
    expected = ["a", *(f"missing_{i}" for i in range(2, 13))]  # The constructor goes by the name of its class.
    print("found   ", found, "expected", expected, sep="\n")
    return 0 if found == expected else 1


if __name__ == "__main__":
    sys.exit(main())
