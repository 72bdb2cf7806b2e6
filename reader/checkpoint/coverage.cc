#include "reader/checkpoint/coverage.h"

#include <algorithm>
#include <numeric>

namespace dsckpt::reader {
namespace {

/// Pairs that a sweep may look at: a share of what a meter allows, so that a search is still
/// possible after it.
constexpr uint64_t kSweepSteps = uint64_t{1} << 24;

std::vector<uint32_t> OrderAlong(std::span<const Box* const> boxes, size_t dim) {
  std::vector<uint32_t> order(boxes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return (*boxes[a])[dim].begin < (*boxes[b])[dim].begin;
  });
  return order;
}

/// Ranges: one overlaps another exactly when it begins before the furthest end so far, or the next
/// one begins before its own end.
std::vector<bool> RangeOverlaps(std::span<const Box* const> boxes) {
  std::vector<bool> overlaps(boxes.size());
  const std::vector<uint32_t> order = OrderAlong(boxes, 0);
  int64_t furthest = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const Range& range = (*boxes[order[i]])[0];
    const bool before = i > 0 && range.begin < furthest;
    const bool after = i + 1 < order.size() && (*boxes[order[i + 1]])[0].begin < range.end;
    overlaps[order[i]] = before || after;
    furthest = i == 0 ? range.end : std::max(furthest, range.end);
  }
  return overlaps;
}

/// The dimension that is cut most often: few boxes stand side by side in it.
size_t MostCut(std::span<const Box* const> boxes) {
  size_t along = 0, most = 0;
  std::vector<int64_t> begins(boxes.size());
  for (size_t dim = 0; dim < boxes[0]->size(); ++dim) {
    for (size_t i = 0; i < boxes.size(); ++i) begins[i] = (*boxes[i])[dim].begin;
    std::sort(begins.begin(), begins.end());
    const auto distinct =
        static_cast<size_t>(std::unique(begins.begin(), begins.end()) - begins.begin());
    if (distinct > most) along = dim;
    most = std::max(most, distinct);
    begins.resize(boxes.size());
  }
  return along;
}

/// Looks for what boxes leave uncovered in a cell, by Chan's "Klee's measure problem made easy":
/// boxes that span the cell in all dimensions but one are taken out, and with them the part of the
/// cell that they cover, so that the rest of it moves together; what is left is cut in two.
class GapSearch {
 public:
  explicit GapSearch(WorkMeter& work) : work_(work) {}

  Result<std::optional<Box>> Search(Box cell, std::vector<Box> boxes) {
    std::vector<Removal> removals;
    while (true) {
      if (!work_.Spend((boxes.size() + 1) * (cell.size() + 1))) {
        return Status(StatusCode::kLimitExceeded,
                      "its pieces overlap in so many ways that telling what they cover would take "
                      "too long");
      }
      if (boxes.empty()) return std::optional(Restored(std::move(cell), removals));
      const std::optional<size_t> dim = SlabDimension(cell, boxes);
      if (!dim) break;
      if (*dim == kCovered) return std::optional<Box>();
      Removal removal = TakeSlabs(cell, *dim, boxes);
      if (removal.left.empty()) return std::optional<Box>();
      Close(removal, cell, boxes);
      removals.push_back(std::move(removal));
    }
    const auto [dim, at] = Cut(cell, boxes);
    for (const bool upper : {false, true}) {
      Box half = cell;
      (upper ? half[dim].begin : half[dim].end) = at;
      std::vector<Box> inside;
      for (const Box& box : boxes) {
        if (auto common = Intersect(box, half)) inside.push_back(*std::move(common));
      }
      DSCKPT_ASSIGN_OR_RETURN(auto gap, Search(std::move(half), std::move(inside)));
      if (gap) return std::optional(Restored(*std::move(gap), removals));
    }
    return std::optional<Box>();
  }

 private:
  static constexpr size_t kCovered = ~size_t{0};

  /// The ranges of one dimension that slabs left; the cell and its boxes were then moved together
  /// in it, as if nothing else had been there.
  struct Removal {
    size_t dim;
    std::vector<Range> left;
  };

  /// The dimension in which most boxes are slabs, if any is; kCovered: one box covers the cell.
  static std::optional<size_t> SlabDimension(const Box& cell, const std::vector<Box>& boxes) {
    std::vector<size_t> slabs(cell.size());
    for (const Box& box : boxes) {
      const auto [dim, open] = OpenDimensions(cell, box);
      if (open == 0) return kCovered;
      if (open == 1) ++slabs[dim];
    }
    const auto most = std::max_element(slabs.begin(), slabs.end());
    if (*most == 0) return std::nullopt;
    return static_cast<size_t>(most - slabs.begin());
  }

  struct Open {
    size_t dim, count;
  };
  /// How many dimensions of the cell the box does not span, and the last of them.
  static Open OpenDimensions(const Box& cell, const Box& box) {
    Open open{0, 0};
    for (size_t dim = 0; dim < cell.size(); ++dim) {
      if (box[dim].begin == cell[dim].begin && box[dim].end == cell[dim].end) continue;
      open = {dim, open.count + 1};
    }
    return open;
  }

  static Removal TakeSlabs(const Box& cell, size_t dim, std::vector<Box>& boxes) {
    std::vector<Range> slabs;
    std::erase_if(boxes, [&](const Box& box) {
      const auto [other, open] = OpenDimensions(cell, box);
      if (open != 1 || other != dim) return false;
      slabs.push_back(box[dim]);
      return true;
    });
    std::sort(slabs.begin(), slabs.end(),
              [](const Range& a, const Range& b) { return a.begin < b.begin; });
    Removal removal{dim, {}};
    int64_t at = cell[dim].begin;
    for (const Range& slab : slabs) {
      if (slab.begin > at) removal.left.push_back({at, slab.begin});
      at = std::max(at, slab.end);
    }
    if (at < cell[dim].end) removal.left.push_back({at, cell[dim].end});
    return removal;
  }

  /// Where `at` comes to lie, counted from the begin of the cell, once the ranges moved together.
  static int64_t Moved(const Removal& removal, const std::vector<int64_t>& before, int64_t at) {
    const auto next =
        std::upper_bound(removal.left.begin(), removal.left.end(), at,
                         [](int64_t x, const Range& range) { return x < range.begin; });
    if (next == removal.left.begin()) return 0;
    const auto i = static_cast<size_t>(next - removal.left.begin()) - 1;
    return before[i] + std::min(at, removal.left[i].end) - removal.left[i].begin;
  }

  static void Close(const Removal& removal, Box& cell, std::vector<Box>& boxes) {
    std::vector<int64_t> before;  // By range: the extents of those before it.
    int64_t extent = 0;
    for (const Range& range : removal.left) {
      before.push_back(extent);
      extent += range.end - range.begin;
    }
    cell[removal.dim] = {0, extent};
    for (Box& box : boxes) {
      Range& range = box[removal.dim];
      range = {Moved(removal, before, range.begin), Moved(removal, before, range.end)};
    }
    std::erase_if(boxes,
                  [&](const Box& box) { return box[removal.dim].begin == box[removal.dim].end; });
  }

  /// A gap where it was before anything moved: the part of it that lies in one range.
  static Box Restored(Box gap, const std::vector<Removal>& removals) {
    for (auto removal = removals.rbegin(); removal != removals.rend(); ++removal) {
      Range& range = gap[removal->dim];
      int64_t before = 0;
      for (const Range& left : removal->left) {
        const int64_t extent = left.end - left.begin;
        if (range.begin < before + extent) {
          range = {left.begin + range.begin - before,
                   std::min(left.end, left.begin + range.end - before)};
          break;
        }
        before += extent;
      }
    }
    return gap;
  }

  struct Place {
    size_t dim;
    int64_t at;
  };
  /// The median of the boundaries inside the cell, in the dimension that has most of them.
  static Place Cut(const Box& cell, const std::vector<Box>& boxes) {
    std::vector<int64_t> most, inside;
    size_t cut = 0;
    for (size_t dim = 0; dim < cell.size(); ++dim) {
      inside.clear();
      for (const Box& box : boxes) {
        if (box[dim].begin > cell[dim].begin) inside.push_back(box[dim].begin);
        if (box[dim].end < cell[dim].end) inside.push_back(box[dim].end);
      }
      if (inside.size() <= most.size()) continue;
      most.swap(inside);
      cut = dim;
    }
    const auto middle = most.begin() + static_cast<std::ptrdiff_t>(most.size() / 2);
    std::nth_element(most.begin(), middle, most.end());
    return {cut, *middle};
  }

  WorkMeter& work_;
};

}  // namespace

std::vector<bool> FindOverlaps(std::span<const Box* const> boxes, WorkMeter& work) {
  std::vector<bool> overlaps(boxes.size());
  if (boxes.size() < 2) return overlaps;
  const size_t rank = boxes[0]->size();
  work.Spend(boxes.size() * (rank + 1));
  if (rank == 1) return RangeOverlaps(boxes);
  const size_t along = MostCut(boxes);
  const uint64_t limit = kSweepSteps + 256 * uint64_t{boxes.size()};
  uint64_t steps = 0;
  std::vector<uint32_t> active;
  for (const uint32_t next : OrderAlong(boxes, along)) {
    if ((steps += active.size()) > limit) {
      work.Spend(steps);
      overlaps.assign(boxes.size(), true);
      return overlaps;
    }
    const Box& box = *boxes[next];
    std::erase_if(active,
                  [&](uint32_t other) { return (*boxes[other])[along].end <= box[along].begin; });
    for (const uint32_t other : active) {
      if (!Intersects(box, *boxes[other])) continue;
      overlaps[next] = overlaps[other] = true;
    }
    active.push_back(next);
  }
  work.Spend(steps);
  return overlaps;
}

Result<std::optional<Box>> FindGap(const Box& wanted, std::span<const Box* const> boxes,
                                   WorkMeter& work) {
  std::vector<Box> inside;
  for (const Box* const box : boxes) {
    if (auto common = Intersect(*box, wanted)) inside.push_back(*std::move(common));
  }
  if (wanted.empty()) {  // One element, and no dimension to cut.
    return inside.empty() ? std::optional(wanted) : std::optional<Box>();
  }
  return GapSearch(work).Search(wanted, std::move(inside));
}

}  // namespace dsckpt::reader
