#ifndef DSCKPT_AVERAGE_H_
#define DSCKPT_AVERAGE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dsckpt/dtype.h"
#include "dsckpt/engine.h"
#include "dsckpt/export.h"
#include "dsckpt/merge.h"
#include "dsckpt/status.h"
#include "dsckpt/trajectory.h"

// Averages of checkpoints, as checkpoints.

namespace DSCKPT_EXPORT dsckpt {

/// One checkpoint of an average.
struct AverageTerm {
  /// Its position in the trajectory.
  uint32_t checkpoint = 0;
  /// How much it counts, in relation to the sum of all weights. A checkpoint of weight 0 is not
  /// read. Weights below 0 are allowed.
  double weight = 1;
};

/// Returns the weights of an exponential moving average that begins at the first of `count`
/// checkpoints: each step keeps `beta` of the average and takes 1 - `beta` of the next checkpoint.
/// With n = `count`, the weight of checkpoint k is (1 - beta) beta^(n-1-k), but that of the first
/// one is beta^(n-1). Their sum is 1, apart from rounding.
/// REQUIRES: count > 0, 0 <= beta < 1.
std::vector<double> EmaWeights(uint32_t count, double beta);

/// How Average() works.
struct AverageOptions {
  /// Which tensors are averaged. With any patterns, only these tensors and the attributes are
  /// written.
  NameFilter names = {};
  /// F16, BF16, F32 or F64: tensors of these four dtypes are written in it. Nothing: in that of the
  /// last term.
  std::optional<DType> dtype = {};
  /// kSafetensors: one file as Hugging Face tools load it, without state tree and objects.
  Container container = Container::kDsckpt;
  /// Whether checksums are checked.
  bool verify = true;
  /// Whether an output that exists gives way.
  bool replace = false;
  /// Called now and then on the thread that called Average().
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress = {};
  /// Called often, on the thread that called Average(). When it returns true, the average stops and
  /// removes what it has written (kCancelled).
  std::function<bool()> cancelled = {};
};

/// What Average() has written.
struct AverageReport {
  /// A tensor of a dtype that has no average.
  struct Copied {
    std::string name;  ///< Its name.
    /// Whether it is the same in all checkpoints; nothing where indexes do not tell.
    std::optional<bool> equal;
  };
  /// An averaged tensor with elements that are not finite.
  struct NonFinite {
    std::string name;  ///< Its name.
    /// How many elements of the average are NaN, and infinite, before they are rounded to the dtype
    /// of the output.
    uint64_t nan = 0;
    uint64_t inf = 0;  ///< See above.
  };

  /// The terms with what each of them counts: weights have the sum 1.
  std::vector<AverageTerm> terms;
  /// Tensors that were averaged.
  uint64_t averaged = 0;
  /// Tensors that were taken from the last term, in the order of names.
  std::vector<Copied> copied;
  /// Tensors with NaN or infinities, in the order of names.
  std::vector<NonFinite> nonfinite;
  /// Elements whose average is finite, but too large for the dtype of the output.
  uint64_t became_infinite = 0;
  /// Bytes of tensors that were read.
  uint64_t read_bytes = 0;
  /// What was written: counts, sizes, and what the output lacks.
  MergeReport output;
};

/// Writes the weighted average of checkpoints as one file. Names, state tree, objects and
/// attributes are those of the last term; the attribute `averaged_from` is JSON text: an array with
/// the members "checkpoint", "step" and "weight" for each term.
///
/// Elements of the dtypes F64, F32, BF16, F16, F8_E4M3, F8_E5M2, F8_E4M3FNUZ, F8_E5M2FNUZ, C64 and
/// C128 are widened to double. The sum of weight times element is made in the order of the terms
/// and divided by the sum of the weights, without fused operations; the quotient is rounded once to
/// the dtype of the output, to the nearest number and to an even one between two. NaN and
/// infinities go through. Tensors of all other dtypes are those of the last term.
///
/// Checkpoints may store a tensor in different ones of the above dtypes, but need the same names
/// and shapes. Content that indexes show to be that of the term before is not read again. Memory is
/// some 256 MiB, the pages of mapped files that are looked at, and the indexes, however many terms
/// there are.
///
/// `output`: one file, which appears under its name whole or not at all.
///
/// Errors, after which nothing was written: kInvalidArgument (no terms, weights whose sum is 0 or
/// not finite, an output that is one of the checkpoints, a filter that takes no name),
/// kMismatch (names that a checkpoint lacks, or other shapes: the message lists them),
/// kAlreadyExists, kCorrupt, kCancelled, and those of Merge().
Result<AverageReport> Average(const Trajectory& run, std::span<const AverageTerm> terms,
                              const std::string& output, const AverageOptions& options = {});

}  // namespace dsckpt

#endif  // DSCKPT_AVERAGE_H_
