#ifndef DSCKPT_NUMERICS_TARGETS_H_
#define DSCKPT_NUMERICS_TARGETS_H_

// Which instruction sets this machine has. Highway's own choice would link its library, which
// distributions have as a shared one only.

#include <array>
#include <cstddef>
#include <span>

namespace dsckpt::numerics {

#if defined(__x86_64__) || defined(__i386__)
inline bool HasSse4() {
  return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("aes") &&
         __builtin_cpu_supports("pclmul");
}
// Not every compiler can ask for F16C; what has AVX2 and FMA has it.
inline bool HasAvx2() {
  return HasSse4() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
inline bool HasAvx3() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
#endif

/// Kernels of several instruction sets.
template <typename Kernels>
class KernelList {
 public:
  /// Null: not compiled, because all that the compiler may use anyway is better.
  void Append(Kernels (*make)()) {
    if (make != nullptr) kernels_[count_++] = make();
  }
  std::span<const Kernels> all() const { return std::span(kernels_).first(count_); }

 private:
  std::array<Kernels, 4> kernels_{};
  size_t count_ = 0;
};

}  // namespace dsckpt::numerics

#endif  // DSCKPT_NUMERICS_TARGETS_H_
