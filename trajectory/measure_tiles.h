#ifndef DSCKPT_TRAJECTORY_MEASURE_TILES_H_
#define DSCKPT_TRAJECTORY_MEASURE_TILES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dsckpt/status.h"
#include "dsckpt/trajectory.h"
#include "numerics/turns.h"
#include "trajectory/measure_plan.h"
#include "trajectory/tensor_reader.h"

// One tile of a tensor on its way through the checkpoints.

namespace dsckpt::trajectory {

/// What the elements of a tile come to in one visit.
struct TileMeasure {
  TensorMoments moments;
  std::optional<uint64_t> first_nan;  ///< In the tensor.
  TensorUpdate update;
  numerics::TurnSums turn;
  TensorUpdate from_first;
};

/// Keeps the elements that later visits are compared with. Not thread-safe.
class TravellingTile {
 public:
  /// `memory`: for what is not mapped, HeldBytes() of the tile's size.
  TravellingTile(TensorReader& reader, TensorPlan& plan, uint32_t index,
                 std::span<std::byte> memory);
  ~TravellingTile();
  TravellingTile(const TravellingTile&) = delete;
  TravellingTile& operator=(const TravellingTile&) = delete;

  /// The bytes of the tile in a visit; 0: the tensor ends before it.
  uint64_t bytes(const Visit& visit) const;
  /// Reads the elements of a visit, unless they are there.
  Status Load(uint32_t visit);
  /// Measures what is marked in a visit. REQUIRES: Load() of it and of those before.
  TileMeasure Measure(const Visit& visit) const;
  TensorPlan& plan() const { return *plan_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  /// The present state, the two before it, and the first one or that of MeasureOptions::against.
  static constexpr size_t kHeld = 4;
  struct Held {
    uint32_t visit = kNone;
    std::span<const std::byte> bytes;
    std::span<std::byte> memory;
  };
  Held* Find(uint32_t visit);
  Held& Free(const Visit& visit);
  void Forget(Held& held);
  std::span<const std::byte> In(uint32_t visit) const;

  TensorReader* reader_;
  TensorPlan* plan_;
  uint32_t index_;
  std::array<Held, kHeld> held_;
};

/// The memory of a tile of so many bytes, with room between its states.
constexpr uint64_t HeldBytes(uint64_t bytes) {
  constexpr uint64_t kStates = 4, kAlignment = 64;
  return kStates * ((bytes + kAlignment - 1) / kAlignment * kAlignment);
}

}  // namespace dsckpt::trajectory

#endif  // DSCKPT_TRAJECTORY_MEASURE_TILES_H_
