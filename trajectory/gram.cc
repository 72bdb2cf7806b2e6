// Gram(): tensor by tensor, chunk by chunk, all checkpoints at once.

#include "dsckpt/gram.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "analysis/parallel.h"
#include "dsckpt/limits.h"
#include "numerics/gram_kernels.h"
#include "numerics/sum_tree.h"
#include "numerics/usual_arithmetic.h"
#include "numerics/widen.h"
#include "trajectory/tensor_reader.h"

namespace dsckpt {

namespace trajectory {

namespace {

/// Products of all pairs.
using PairProducts = std::vector<double>;

/// As few elements as are added up before sums are joined pairwise.
constexpr size_t kGroupElements = 16 * numerics::kGramElements;
/// What a tree of sums in one chunk may hold, in levels.
constexpr uint64_t kChunkLevels = 10;

struct Products {
  PairProducts sums;
};

/// For numerics::PairwiseTree.
Products Joined(const Products& left, const Products& right) {
  Products both = left;
  for (size_t p = 0; p < both.sums.size(); ++p) both.sums[p] += right.sums[p];
  return both;
}

/// How numbers of a dtype are widened; complex ones are two.
struct Numbers {
  numerics::Widen widen = nullptr;
  uint64_t bytes = 0;
};

std::optional<Numbers> NumbersOf(DType dtype) {
  if (dtype == DType::kC64) dtype = DType::kF32;
  if (dtype == DType::kC128) dtype = DType::kF64;
  const numerics::Widen widen = numerics::FindWiden(dtype);
  if (widen == nullptr) return std::nullopt;
  return Numbers{widen, FindDType(dtype)->block_bytes};
}

/// Makes numbers that are not finite 0. Returns how many these are.
uint64_t DropNonFinite(std::span<double> numbers) {
  uint64_t dropped = 0;
  for (double& number : numbers) {
    const bool finite = std::fabs(number) <= std::numeric_limits<double>::max();
    dropped += finite ? 0 : 1;
    number = finite ? number : 0;
  }
  return dropped;
}

/// The rows of one tensor: its different contents, each by the first checkpoint that has it.
struct GramTensor {
  uint32_t tensor = 0;
  TrajectoryForm form;
  Numbers numbers;
  std::vector<uint32_t> sources;  ///< Checkpoints, by row.
  std::vector<uint32_t> row_of;   ///< By position in the selection.
};

GramTensor PlanRows(const Trajectory& run, std::span<const uint32_t> checkpoints, uint32_t tensor) {
  GramTensor plan;
  plan.tensor = tensor;
  plan.form = *run.Form(checkpoints[0], tensor);
  plan.numbers = *NumbersOf(plan.form.dtype.code);
  std::vector<std::optional<Hash128>> contents;
  for (const uint32_t t : checkpoints) {
    const auto content = run.Content(t, tensor);
    const auto known = content ? std::ranges::find(contents, content) : contents.end();
    plan.row_of.push_back(static_cast<uint32_t>(known - contents.begin()));
    if (known != contents.end()) continue;
    contents.push_back(content);
    plan.sources.push_back(t);
  }
  return plan;
}

/// What one tile of a tensor comes to.
struct GramTile {
  Products products;
  std::vector<uint64_t> nonfinite;  ///< By row.
};

/// Multiplies the rows of one tensor.
class GramRun {
 public:
  GramRun(MappedCheckpoints& checkpoints, const GramTensor& plan, const GramOptions& options)
      : plan_(plan), options_(options), reader_(checkpoints, plan.tensor, options.reading.verify) {}

  Status Run(const std::function<void(uint64_t)>& progress) {
    DSCKPT_RETURN_IF_ERROR(PlanTiles());
    nonfinite_.resize(rows());
    for (uint64_t first = 0; first < plan_.form.bytes; first += workers_ * tile_bytes_) {
      std::vector<analysis::Tile> round;
      for (uint64_t at = first; at < plan_.form.bytes && round.size() < workers_;
           at += tile_bytes_) {
        const auto index = static_cast<uint32_t>(round.size());
        round.push_back({index, 0, std::min(tile_bytes_, plan_.form.bytes - at)});
      }
      std::vector<GramTile> tiles(round.size());
      AnalysisOptions threads;
      threads.threads = static_cast<int>(workers_);
      DSCKPT_RETURN_IF_ERROR(
          analysis::ForEachTile(round, threads, [&](const analysis::Tile& tile, size_t) -> Status {
            return Multiply(first + tile.item * tile_bytes_, tile.bytes, tiles[tile.item]);
          }));
      for (GramTile& tile : tiles) {
        tree_.Push(std::move(tile.products));
        for (size_t row = 0; row < rows(); ++row) nonfinite_[row] += tile.nonfinite[row];
      }
      for (const analysis::Tile& tile : round) progress(tile.bytes * rows());
    }
    return {};
  }

  /// Adds what was found to the products and counts of all checkpoints.
  void AddTo(GramReport& report) const {
    const size_t count = report.checkpoints.size();
    const PairProducts sums = tree_.Root().sums;
    report.read_bytes += plan_.form.bytes * rows();
    for (size_t i = 0; i < count; ++i) {
      report.nonfinite[i] += nonfinite_.empty() ? 0 : nonfinite_[plan_.row_of[i]];
      for (size_t j = 0; j < count && !sums.empty(); ++j) {
        const auto [low, high] = std::minmax(plan_.row_of[i], plan_.row_of[j]);
        report.products[i * count + j] += sums[numerics::GramPair(high, low)];
      }
    }
  }

 private:
  size_t rows() const { return plan_.sources.size(); }

  /// Whole chunks, or parts of them where memory has no room.
  Status PlanTiles() {
    uint64_t copied = 0;
    for (const uint32_t t : plan_.sources) {
      DSCKPT_ASSIGN_OR_RETURN(const bool mapped, reader_.IsMapped(t));
      copied += mapped ? 0 : 1;
    }
    const uint64_t least = kGroupElements * plan_.numbers.bytes;
    const uint64_t threads = analysis::Workers(options_.reading);
    // Chunks that have to be copied are decoded for each part of them. Of mapped ones small parts
    // cost nothing, and no thread is idle.
    const uint64_t held = copied == 0 ? rows() * threads : copied;
    tile_bytes_ = kChunkBytes;
    while (tile_bytes_ / 2 >= least &&
           (held * tile_bytes_ > options_.memory ||
            (copied == 0 && plan_.form.bytes / tile_bytes_ < threads))) {
      tile_bytes_ /= 2;
    }
    const uint64_t working = (numerics::GramRows(rows()) * numerics::kGramElements +
                              kChunkLevels * numerics::GramPairs(rows())) *
                                 sizeof(double) +
                             copied * tile_bytes_;
    workers_ = std::clamp<uint64_t>(options_.memory / working, 1, threads);
    return {};
  }

  Status Multiply(uint64_t offset, uint64_t bytes, GramTile& tile) {
    const numerics::UsualArithmetic usual;
    const auto& kernel = numerics::UsableGramKernels().front();
    std::vector<std::vector<std::byte>> buffers(rows());
    std::vector<std::span<const std::byte>> elements;
    for (size_t row = 0; row < rows(); ++row) {
      DSCKPT_ASSIGN_OR_RETURN(const auto read,
                              reader_.Read(plan_.sources[row], offset, bytes, buffers[row]));
      elements.push_back(read);
    }
    tile.nonfinite.resize(rows());
    numerics::PairwiseTree<Products> tree;
    std::vector<double> panel(numerics::GramRows(rows()) * numerics::kGramElements);
    const uint64_t count = bytes / plan_.numbers.bytes;
    Products group;
    for (uint64_t first = 0; first < count; first += numerics::kGramElements) {
      if (first % kGroupElements == 0) {
        if (first != 0) tree.Push(std::move(group));
        group.sums.assign(numerics::GramPairs(rows()), 0);
      }
      Widen(elements, first, std::min<uint64_t>(numerics::kGramElements, count - first), panel,
            tile.nonfinite);
      kernel.add_products(panel.data(), rows(), group.sums.data());
    }
    tree.Push(std::move(group));
    tile.products = tree.Root();
    for (size_t row = 0; row < rows(); ++row) reader_.Forget(plan_.sources[row], elements[row]);
    return {};
  }

  /// Elements [first, first + count) of all rows, and zeros behind them.
  void Widen(std::span<const std::span<const std::byte>> elements, uint64_t first, size_t count,
             std::span<double> panel, std::vector<uint64_t>& nonfinite) const {
    for (size_t row = 0; row < elements.size(); ++row) {
      const auto numbers = panel.subspan(row * numerics::kGramElements, numerics::kGramElements);
      plan_.numbers.widen(elements[row].data() + first * plan_.numbers.bytes, count,
                          numbers.data());
      nonfinite[row] += DropNonFinite(numbers.first(count));
      std::ranges::fill(numbers.subspan(count), 0.0);
    }
  }

  const GramTensor& plan_;
  const GramOptions& options_;
  TensorReader reader_;
  uint64_t tile_bytes_ = 0, workers_ = 1;
  numerics::PairwiseTree<Products> tree_;
  std::vector<uint64_t> nonfinite_;  // By row.
};

/// Why a tensor is left out; empty: it is not.
std::string WhyNot(const Trajectory& run, std::span<const uint32_t> checkpoints, uint32_t tensor) {
  const auto first = run.Form(checkpoints[0], tensor);
  for (const uint32_t t : checkpoints) {
    const auto form = run.Form(t, tensor);
    if (!form) return "is not in " + run.operand(t);
    if (!NumbersOf(form->dtype.code)) return "is of a dtype that is packed or unknown";
    if (form->dtype.code == first->dtype.code && std::ranges::equal(form->shape, first->shape)) {
      continue;
    }
    return "is " + std::string(form->dtype.name) + " " + ShapeText(form->shape) + " in " +
           run.operand(t) + " and " + std::string(first->dtype.name) + " " +
           ShapeText(first->shape) + " in " + run.operand(checkpoints[0]);
  }
  return {};
}

}  // namespace

}  // namespace trajectory

Result<GramReport> Gram(const Trajectory& run, const TrajectorySelection& selection,
                        const GramOptions& options) {
  GramReport report;
  report.checkpoints = selection.checkpoints;
  const size_t count = report.checkpoints.size();
  report.products.resize(count * count);
  report.nonfinite.resize(count);
  if (count == 0) return report;
  std::vector<trajectory::GramTensor> plans;
  uint64_t total = 0, done = 0;
  for (const uint32_t tensor : selection.tensors) {
    std::string why = trajectory::WhyNot(run, report.checkpoints, tensor);
    if (!why.empty()) {
      report.skipped.push_back({tensor, std::move(why)});
      continue;
    }
    plans.push_back(trajectory::PlanRows(run, report.checkpoints, tensor));
    const trajectory::GramTensor& plan = plans.back();
    report.tensors.push_back(tensor);
    report.elements += plan.form.bytes / plan.form.dtype.block_bytes;
    total += plan.form.bytes * plan.sources.size();
  }
  const auto progress = [&](uint64_t bytes) {
    done += bytes;
    if (options.reading.progress) options.reading.progress(done, total);
  };
  trajectory::MappedCheckpoints checkpoints(run);
  for (const trajectory::GramTensor& plan : plans) {
    trajectory::GramRun tensor(checkpoints, plan, options);
    DSCKPT_RETURN_IF_ERROR(tensor.Run(progress));
    tensor.AddTo(report);
  }
  return report;
}

}  // namespace dsckpt
