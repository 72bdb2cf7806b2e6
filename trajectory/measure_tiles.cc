#include "trajectory/measure_tiles.h"

#include <algorithm>

#include "analysis/tile_moments.h"
#include "dsckpt/limits.h"
#include "numerics/pairs.h"

namespace dsckpt::trajectory {

namespace {

/// Smaller tiles are copied: with mapped ones the pages around them would come, and stay.
constexpr uint64_t kLeastMapped = 1 << 16;

TensorUpdate ToUpdate(const numerics::PairStatistics& found) {
  TensorUpdate update;
  update.count = found.count;
  update.finite = found.finite;
  update.changed = found.changed;
  update.squares = found.sums.difference;
  update.cross = found.sums.cross;
  update.squares_before = found.sums.first;
  update.squares_after = found.sums.second;
  return update;
}

}  // namespace

TravellingTile::TravellingTile(TensorReader& reader, TensorPlan& plan, uint32_t index,
                               std::span<std::byte> memory)
    : reader_(&reader), plan_(&plan), index_(index) {
  const size_t size = memory.size() / kHeld;
  for (size_t i = 0; i < kHeld; ++i) held_[i].memory = memory.subspan(i * size, size);
}

uint64_t TravellingTile::bytes(const Visit& visit) const {
  const uint64_t offset = index_ * kChunkBytes;
  return visit.form.bytes <= offset ? 0 : std::min(kChunkBytes, visit.form.bytes - offset);
}

TravellingTile::Held* TravellingTile::Find(uint32_t visit) {
  const auto found = std::ranges::find(held_, visit, &Held::visit);
  return found == held_.end() ? nullptr : &*found;
}

TravellingTile::Held& TravellingTile::Free(const Visit& visit) {
  const auto content = [&](std::optional<uint32_t> v) {
    return v ? plan_->visits[*v].content : kNone;
  };
  const uint32_t needed[] = {content(visit.first), content(plan_->against), content(visit.before),
                             content(visit.two_before)};
  const auto found = std::ranges::find_if(held_, [&](const Held& held) {
    return held.visit == kNone || std::ranges::find(needed, held.visit) == std::end(needed);
  });
  return *found;
}

Status TravellingTile::Load(uint32_t v) {
  const Visit& visit = plan_->visits[v];
  if (Find(v) != nullptr) return {};
  Held& held = Free(visit);
  Forget(held);
  const uint64_t offset = index_ * kChunkBytes, size = bytes(visit);
  DSCKPT_ASSIGN_OR_RETURN(held.bytes,
                          size < kLeastMapped
                              ? reader_->Copy(visit.checkpoint, offset, held.memory.first(size))
                              : reader_->Read(visit.checkpoint, offset, held.memory.first(size)));
  held.visit = v;
  return {};
}

void TravellingTile::Forget(Held& held) {
  const bool mapped = held.bytes.data() != held.memory.data();
  if (held.visit != kNone && mapped) {
    reader_->Forget(plan_->visits[held.visit].checkpoint, held.bytes);
  }
  held.visit = kNone;
}

TravellingTile::~TravellingTile() {
  for (Held& held : held_) Forget(held);
}

std::span<const std::byte> TravellingTile::In(uint32_t v) const {
  const auto found = std::ranges::find(held_, plan_->visits[v].content, &Held::visit);
  return found->bytes;
}

TileMeasure TravellingTile::Measure(const Visit& visit) const {
  const auto v = static_cast<uint32_t>(&visit - plan_->visits.data());
  const DTypeInfo& dtype = visit.form.dtype;
  TileMeasure measure;
  if (visit.moments) {
    measure.moments = analysis::MomentsOfTile(dtype, In(v));
    if (measure.moments.nan != 0) {
      measure.first_nan = numerics::FindNan(dtype.code, In(v));
      *measure.first_nan += index_ * kChunkBytes / dtype.block_bytes;
    }
  }
  if (visit.update) {
    measure.update = ToUpdate(numerics::SumUpdates(dtype.code, In(*visit.before), In(v)));
  }
  if (visit.turn) {
    measure.turn = numerics::SumTurns(dtype.code, In(*visit.two_before), In(*visit.before), In(v));
  }
  if (visit.distance) {
    measure.from_first = ToUpdate(numerics::SumUpdates(dtype.code, In(visit.first), In(v)));
  }
  return measure;
}

}  // namespace dsckpt::trajectory
