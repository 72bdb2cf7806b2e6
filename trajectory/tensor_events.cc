#include "trajectory/tensor_events.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

namespace dsckpt::trajectory {

namespace {

using Kind = TrajectoryEventKind;

constexpr size_t kWindow = 7;
constexpr size_t kFewest = 3;
/// The median distance from the median of normal values, in standard deviations, is one of this.
constexpr double kDeviationsPerMad = 1.4826;
constexpr double kFarDeviations = 5;
constexpr double kFarTimes = 3;

bool IsFloat(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
    case DType::kI8:
    case DType::kU16:
    case DType::kI16:
    case DType::kU32:
    case DType::kI32:
    case DType::kU64:
    case DType::kI64:
      return false;
    default:
      return true;
  }
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The largest norm that is no jump after those of `window`, which are logarithms.
double Threshold(const std::vector<double>& window) {
  const double median = Median(window);
  std::vector<double> distances;
  for (const double each : window) distances.push_back(std::abs(each - median));
  const double far = kFarDeviations * kDeviationsPerMad * Median(distances);
  return std::exp(median + std::max(far, std::log(kFarTimes)));
}

/// What is known of the elements in one checkpoint.
struct Known {
  uint64_t nan = 0, inf = 0, zero = 0;
  std::optional<uint64_t> first_nan;
};

/// Follows one tensor from checkpoint to checkpoint.
class Follower {
 public:
  Follower(const Trajectory& run, uint32_t tensor) : run_(run), tensor_(tensor) {}

  /// `measure`: null where elements were not read.
  void Visit(uint32_t t, const TensorMeasure* measure) {
    const bool returned = returned_;
    returned_ = Returns(t);
    judged_ = !returned && !returned_;
    const auto form = run_.Form(t, tensor_);
    if (!form) {
      if (present_) Add(Kind::kRemoved, t);
      present_ = false;
      visited_ = true;
      return;
    }
    if (!present_ && visited_) Add(Kind::kAdded, t);
    if (last_ && form_.dtype.code != form->dtype.code) Add(Kind::kRetyped, t);
    if (last_ && !std::ranges::equal(form_.shape, form->shape)) Add(Kind::kReshaped, t);
    Look(t, *form, measure);
    form_ = *form;
    last_ = t;
    present_ = visited_ = true;
  }

  std::vector<TrajectoryEvent> Finish() {
    if (measured_ > 1 && all_zero_ == measured_) Add(Kind::kDead, *last_);
    return std::move(events_);
  }

 private:
  TrajectoryEvent& Add(Kind kind, uint32_t t) {
    TrajectoryEvent& event = events_.emplace_back();
    event.kind = kind;
    event.checkpoint = t;
    event.tensor = tensor_;
    event.step = run_.step(t);
    if (last_ && *last_ != t) event.other = last_;
    return event;
  }

  /// Whether it holds what an earlier checkpoint but not the one before holds: one of the two is
  /// there by mistake, and steps to it and from it say nothing about training.
  bool Returns(uint32_t t) {
    const auto content = run_.Content(t, tensor_);
    if (!content) return false;
    const std::pair<uint64_t, uint64_t> key(content->high, content->low);
    const bool seen = !seen_.insert(key).second;
    const bool returns = seen && key != last_content_;
    last_content_ = key;
    return returns;
  }

  void Look(uint32_t t, const TrajectoryForm& form, const TensorMeasure* measure) {
    if (measure != nullptr) {
      const TensorMoments& m = measure->moments;
      Count(t, form, {m.nan, m.inf, m.zero, measure->first_nan});
      if (measure->update && measure->before == last_) Move(t, form, *measure);
      return;
    }
    const auto statistics = run_.Statistics(t, tensor_);
    if (!statistics) return;
    Count(t, form, {statistics->nan, statistics->inf, statistics->zero, std::nullopt});
    Size(t, std::sqrt(statistics->sum_squares));
  }

  void Count(uint32_t t, const TrajectoryForm& form, const Known& now) {
    if (now.nan != 0 && before_.nan == 0) {
      TrajectoryEvent& event = Add(Kind::kNan, t);
      event.value = static_cast<double>(now.nan);
      event.element = now.first_nan;
    }
    if (now.inf != 0 && before_.inf == 0) {
      Add(Kind::kInf, t).value = static_cast<double>(now.inf);
    }
    const auto elements = ElementCount(form.shape);
    const bool zero = elements.ok() && *elements != 0 && now.zero == *elements;
    if (zero && all_zero_ != measured_ && !zero_before_) Add(Kind::kDead, t);
    ++measured_;
    all_zero_ += zero ? 1 : 0;
    zero_before_ = zero;
    before_ = now;
  }

  void Move(uint32_t t, const TrajectoryForm& form, const TensorMeasure& measure) {
    const auto now = run_.step(t), before = run_.step(*measure.before);
    const int64_t gap = now && before && *now > *before ? *now - *before : 1;
    if (judged_) Size(t, measure.update->Norm() / static_cast<double>(gap));
    const bool coarse = IsCoarse(measure, form.dtype.code);
    if (coarse && !coarse_) Add(Kind::kCoarse, t).value = measure.update->Rms();
    coarse_ = coarse_ || coarse;
  }

  void Size(uint32_t t, double size) {
    if (!(size > 0)) return;
    if (sizes_.size() >= kFewest) {
      const double threshold = Threshold(sizes_);
      const bool jump = size > threshold;
      if (jump && !jumped_) {
        TrajectoryEvent& event = Add(Kind::kJump, t);
        event.value = size;
        event.threshold = threshold;
      }
      jumped_ = jump;
    }
    sizes_.push_back(std::log(size));
    if (sizes_.size() > kWindow) sizes_.erase(sizes_.begin());
  }

  const Trajectory& run_;
  const uint32_t tensor_;
  std::vector<TrajectoryEvent> events_;
  std::optional<uint32_t> last_;  // that had the tensor
  TrajectoryForm form_{};         // in it
  bool present_ = false, visited_ = false;
  Known before_;
  uint64_t measured_ = 0, all_zero_ = 0;
  bool zero_before_ = false, jumped_ = false, coarse_ = false;
  bool returned_ = false, judged_ = true;
  std::set<std::pair<uint64_t, uint64_t>> seen_;
  std::optional<std::pair<uint64_t, uint64_t>> last_content_;
  std::vector<double> sizes_;  // logarithms, the last kWindow
};

/// Whether no update of a tensor that was read changed it.
bool NeverMoves(std::span<const TensorMeasure> measures) {
  return std::ranges::all_of(measures, [&](const TensorMeasure& measure) {
    const bool first = &measure == &measures.front();
    return first ? !measure.update : measure.update && measure.update->changed == 0;
  });
}

/// Whether it is in two checkpoints at least, and known to be the same in all that have it.
bool IsFrozen(const Trajectory& run, const std::vector<uint32_t>& checkpoints, uint32_t tensor,
              uint32_t& first, uint32_t& last) {
  std::optional<Hash128> content;
  uint32_t seen = 0;
  for (const uint32_t t : checkpoints) {
    if (!run.Form(t, tensor)) continue;
    const auto now = run.Content(t, tensor);
    if (!now || (content && *content != *now)) return false;
    content = now;
    if (seen++ == 0) first = t;
    last = t;
  }
  return seen > 1;
}

}  // namespace

std::vector<TrajectoryEvent> TensorEvents(const Trajectory& run,
                                          const std::vector<uint32_t>& checkpoints, uint32_t tensor,
                                          const std::function<bool()>& others_change,
                                          std::span<const TensorMeasure> measures) {
  Follower follower(run, tensor);
  auto measure = measures.begin();
  for (const uint32_t t : checkpoints) {
    const bool measured = measure != measures.end() && measure->checkpoint == t;
    follower.Visit(t, measured ? &*measure++ : nullptr);
  }
  std::vector<TrajectoryEvent> events = follower.Finish();
  const TrajectoryTensor about = run.tensor(tensor);
  const bool dead =
      std::ranges::any_of(events, [](const auto& e) { return e.kind == Kind::kDead; });
  TrajectoryEvent frozen;
  uint32_t first = 0;
  // Counters and masks do not train.
  if (dead || !IsFloat(about.dtype.code)) return events;
  if (measures.size() > 1 && NeverMoves(measures)) {
    first = measures.front().checkpoint;
    frozen.checkpoint = measures.back().checkpoint;
  } else if (!IsFrozen(run, checkpoints, tensor, first, frozen.checkpoint)) {
    return events;
  }
  if (!others_change()) return events;
  frozen.kind = Kind::kFrozen;
  frozen.tensor = tensor;
  frozen.other = first;
  frozen.step = run.step(frozen.checkpoint);
  events.push_back(frozen);
  return events;
}

bool IsKnown(const Trajectory& run, const std::vector<uint32_t>& checkpoints, uint32_t tensor) {
  return std::ranges::any_of(checkpoints,
                             [&](uint32_t t) { return run.Content(t, tensor).has_value(); });
}

bool EverChanges(const Trajectory& run, const std::vector<uint32_t>& checkpoints, uint32_t tensor) {
  std::optional<Hash128> before;
  for (const uint32_t t : checkpoints) {
    const auto now = run.Content(t, tensor);
    if (before && now && *before != *now) return true;
    if (now) before = now;
  }
  return false;
}

}  // namespace dsckpt::trajectory
