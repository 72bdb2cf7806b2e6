#ifndef DSCKPT_NUMERICS_USUAL_ARITHMETIC_H_
#define DSCKPT_NUMERICS_USUAL_ARITHMETIC_H_

#ifdef __SSE2__
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace dsckpt::numerics {

/// Rounding and subnormal numbers as usual while it lives: a program may have set its threads to
/// take subnormal numbers as 0, and threads inherit that.
class UsualArithmetic {
 public:
  UsualArithmetic(const UsualArithmetic&) = delete;
  UsualArithmetic& operator=(const UsualArithmetic&) = delete;

#ifdef __SSE2__
  // Of the two units this is the one in use, and the standard's functions take ten times as long.
  UsualArithmetic() : before_(_mm_getcsr()) { _mm_setcsr(0x1F80); }
  ~UsualArithmetic() { _mm_setcsr(before_); }

 private:
  const unsigned before_;
#else
  UsualArithmetic() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~UsualArithmetic() { std::fesetenv(&before_); }

 private:
  std::fenv_t before_;
#endif
};

}  // namespace dsckpt::numerics

#endif  // DSCKPT_NUMERICS_USUAL_ARITHMETIC_H_
