#include "merge/cast.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "numerics/narrow.h"
#include "numerics/usual_arithmetic.h"
#include "numerics/widen.h"

namespace dsckpt::merge {

namespace {

// Elements that are cast at a time: memory is a fraction of a MiB a thread.
constexpr uint64_t kStep = 1 << 16;
// Of these the doubles on the way stay in the processor's cache.
constexpr uint64_t kWidened = 4096;

uint64_t Size(DType dtype) { return FindDType(dtype)->block_bytes; }

}  // namespace

bool CanCast(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF32 ||
         dtype == DType::kF64;
}

uint64_t CastElements(DType from, DType to, std::span<const std::byte> in,
                      std::span<std::byte> out) {
  const uint64_t in_size = Size(from), out_size = Size(to), count = out.size() / out_size;
  const numerics::UsualArithmetic usual;
  const numerics::Widen widen = numerics::FindWiden(from);
  const numerics::Narrow narrow = numerics::FindNarrow(to);
  std::array<double, kWidened> numbers;
  uint64_t overflows = 0;
  for (uint64_t first = 0; first < count; first += kWidened) {
    const uint64_t some = std::min(kWidened, count - first);
    widen(in.data() + first * in_size, some, numbers.data());
    overflows += narrow(numbers.data(), some, out.data() + first * out_size);
  }
  return overflows;
}

Result<uint64_t> ReadCast(
    DType from, DType to, uint64_t offset, std::span<std::byte> out,
    const std::function<Status(uint64_t offset, std::span<std::byte> out)>& read) {
  const uint64_t in_size = Size(from), out_size = Size(to), end = offset + out.size();
  std::vector<std::byte> in(kStep * in_size), cast(kStep * out_size);
  uint64_t overflows = 0;
  for (uint64_t done = offset; done < end;) {
    // A window may begin and end within an element.
    const uint64_t first = done / out_size;
    const uint64_t last = std::min((end + out_size - 1) / out_size, first + kStep);
    const auto some = std::span(in).first((last - first) * in_size);
    DSCKPT_RETURN_IF_ERROR(read(first * in_size, some));
    const auto made = std::span(cast).first((last - first) * out_size);
    overflows += CastElements(from, to, some, made);
    const uint64_t skip = done - first * out_size;
    const uint64_t bytes = std::min(made.size() - skip, end - done);
    std::memcpy(out.data() + (done - offset), made.data() + skip, bytes);
    done += bytes;
  }
  return overflows;
}

}  // namespace dsckpt::merge
