#include "trajectory/weighted_sum.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "numerics/narrow.h"
#include "numerics/usual_arithmetic.h"
#include "numerics/widen.h"

namespace dsckpt::trajectory {

namespace {

/// Parts that are summed up at a time: their sums take 16 MiB. Of many mapped terms fewer, so that
/// pages are given back in time.
constexpr uint64_t kSumParts = 1 << 21, kFewParts = 1 << 16, kManyTerms = 8;
/// Parts that stay in the processor's cache while all terms are added.
constexpr size_t kCachedParts = 4096;
/// Tensors that engine threads may be at, all together.
constexpr size_t kSumReaders = 16;

/// The elements of one term.
struct Addend {
  const std::byte* elements;
  Parts parts;
  double weight;
};

/// Adds in the order of `addends`; `first`: the sums are not begun yet.
void AddUp(std::span<const Addend> addends, bool first, std::span<double> sums) {
  std::array<double, kCachedParts> wide;
  for (size_t begin = 0; begin < sums.size(); begin += kCachedParts) {
    const size_t count = std::min(kCachedParts, sums.size() - begin);
    double* const block = sums.data() + begin;
    bool begun = !first;
    for (const Addend& addend : addends) {
      numerics::FindWiden(addend.parts.dtype)(addend.elements + begin * addend.parts.bytes, count,
                                              wide.data());
      // A sum that began at 0 would lose the sign of -0.
      if (!begun) {
        for (size_t i = 0; i < count; ++i) block[i] = addend.weight * wide[i];
      } else {
        for (size_t i = 0; i < count; ++i) block[i] += addend.weight * wide[i];
      }
      begun = true;
    }
  }
}

}  // namespace

/// Memory of one call.
struct WeightedSum::Memory {
  std::vector<std::byte> buffer;
  std::vector<double> sums;
  std::vector<std::byte> elements;
};

std::optional<Parts> PartsOf(DType dtype) {
  DType part = dtype;
  if (dtype == DType::kC64) part = DType::kF32;
  if (dtype == DType::kC128) part = DType::kF64;
  if (numerics::FindNarrow(part) == nullptr) return std::nullopt;
  return Parts{part, FindDType(part)->block_bytes};
}

WeightedSum::WeightedSum(const Trajectory& run, std::vector<AverageTerm> terms, bool verify)
    : run_(run),
      checkpoints_(run),
      terms_(std::move(terms)),
      verify_(verify),
      counts_(run.tensor_count()),
      readers_(kSumReaders) {
  for (const AverageTerm& term : terms_) total_ += term.weight;
}

std::shared_ptr<TensorReader> WeightedSum::ReaderOf(uint32_t tensor) {
  MutexLock lock(mutex_);
  if (const auto* const known = readers_.Find(tensor)) return *known;
  auto reader = std::make_shared<TensorReader>(checkpoints_, tensor, verify_);
  readers_.Put(tensor, reader);
  return reader;
}

/// The sums of the parts from `first` on.
Status WeightedSum::Sum(uint32_t tensor, uint64_t first, std::span<double> sums, Memory& memory) {
  const auto reader = ReaderOf(tensor);
  std::vector<Addend> addends;
  bool begun = false;
  const auto add_up = [&] {
    AddUp(addends, !begun, sums);
    begun = true;
    addends.clear();
  };
  std::optional<Hash128> before;
  std::span<const std::byte> bytes;
  std::vector<std::pair<uint32_t, std::span<const std::byte>>> held;
  for (const AverageTerm& term : terms_) {
    if (stopped_) return Status(StatusCode::kCancelled, "the average was cancelled");
    const Parts parts = *PartsOf(run_.Form(term.checkpoint, tensor)->dtype.code);
    const auto content = run_.Content(term.checkpoint, tensor);
    if (!content || content != before) {
      DSCKPT_ASSIGN_OR_RETURN(const bool mapped, reader->IsMapped(term.checkpoint));
      // The buffer is for one term at a time.
      if (!mapped && !addends.empty()) add_up();
      DSCKPT_ASSIGN_OR_RETURN(bytes, reader->Read(term.checkpoint, first * parts.bytes,
                                                  sums.size() * parts.bytes, memory.buffer));
      held.emplace_back(term.checkpoint, bytes);
      read_bytes_ += bytes.size();
    }
    before = content;
    addends.push_back({bytes.data(), parts, term.weight});
  }
  add_up();
  for (const auto& [t, read] : held) reader->Forget(t, read);
  return {};
}

/// Chunks that have to be copied are decoded for each part of them that is asked for.
Result<uint64_t> WeightedSum::PartsAtATime(uint32_t tensor) {
  const auto reader = ReaderOf(tensor);
  for (const AverageTerm& term : terms_) {
    DSCKPT_ASSIGN_OR_RETURN(const bool mapped, reader->IsMapped(term.checkpoint));
    if (!mapped) return kSumParts;
  }
  return std::clamp(kSumParts * kManyTerms / terms_.size(), kFewParts, kSumParts);
}

Status WeightedSum::Read(uint32_t tensor, DType to, uint64_t offset, std::span<std::byte> out) {
  const numerics::UsualArithmetic usual;
  const Parts parts = *PartsOf(to);
  SumCounts& counts = counts_[tensor];
  const uint64_t end = offset + out.size();
  Memory memory;
  DSCKPT_ASSIGN_OR_RETURN(const uint64_t most, PartsAtATime(tensor));
  for (uint64_t done = offset; done < end;) {
    // What is asked for may begin and end within an element.
    const uint64_t first = done / parts.bytes;
    const uint64_t last = std::min((end + parts.bytes - 1) / parts.bytes, first + most);
    memory.sums.resize(last - first);
    DSCKPT_RETURN_IF_ERROR(Sum(tensor, first, memory.sums, memory));
    uint64_t nan = 0, inf = 0;
    for (double& sum : memory.sums) {
      sum /= total_;
      nan += std::isnan(sum) ? 1 : 0;
      inf += std::isinf(sum) ? 1 : 0;
    }
    counts.nan += nan;
    counts.inf += inf;
    memory.elements.resize(memory.sums.size() * parts.bytes);
    counts.overflows += numerics::FindNarrow(parts.dtype)(memory.sums.data(), memory.sums.size(),
                                                          memory.elements.data());
    const uint64_t skip = done - first * parts.bytes;
    const uint64_t bytes = std::min(memory.elements.size() - skip, end - done);
    std::memcpy(out.data() + (done - offset), memory.elements.data() + skip, bytes);
    done += bytes;
  }
  return {};
}

}  // namespace dsckpt::trajectory
