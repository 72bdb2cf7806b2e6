#ifndef DSCKPT_GRAM_H_
#define DSCKPT_GRAM_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dsckpt/analysis.h"
#include "dsckpt/export.h"
#include "dsckpt/status.h"
#include "dsckpt/trajectory.h"
#include "dsckpt/trajectory_events.h"

// Inner products of all checkpoints of a run.

namespace DSCKPT_EXPORT dsckpt {

/// How Gram() works.
struct GramOptions {
  /// How tensors are read. `progress` counts bytes of tensors.
  AnalysisOptions reading = {};
  /// About how much memory it takes, in bytes; but at least the products themselves, and a few
  /// thousand elements of each checkpoint.
  uint64_t memory = 256 << 20;
};

/// What Gram() found.
struct GramReport {
  /// A tensor that is left out.
  struct Skipped {
    uint32_t tensor = 0;  ///< By position in the trajectory.
    std::string why;      ///< "is not in RUN@100".
  };

  /// The checkpoints, by position in the trajectory.
  std::vector<uint32_t> checkpoints;
  /// The inner product of each checkpoint with each one, row by row: the sum over all elements of
  /// all tensors of the products of both. It is symmetric.
  std::vector<double> products;
  /// How many elements of each checkpoint are not finite; they count as 0.
  std::vector<uint64_t> nonfinite;
  /// The tensors that were multiplied, and those that were not.
  std::vector<uint32_t> tensors;
  std::vector<Skipped> skipped;  ///< See above.
  /// The number of elements that a checkpoint has in these tensors.
  uint64_t elements = 0;
  /// Bytes of tensors that were read.
  uint64_t read_bytes = 0;

  /// Returns a product by the positions of both in `checkpoints`.
  double At(size_t i, size_t j) const { return products[i * checkpoints.size() + j]; }
};

/// Returns the inner products of the selected tensors in the selected checkpoints, each checkpoint
/// taken as one long vector. Distances, angles and principal components of the run follow from
/// them: |a - b|^2 = aa + bb - 2ab.
///
/// Elements are widened to double; complex ones are two numbers. An element that is NaN or infinite
/// counts as 0, and is counted. Tensors whose dtype or shape is not the same in all selected
/// checkpoints, or whose dtype is packed or unknown, are left out. Tensors are read tile by tile,
/// each once; content that indexes show to be equal in several checkpoints is read in one of them.
///
/// The order of additions depends on the positions of elements alone: products have the same bits
/// whatever the machine, the number of threads, the memory, and the other checkpoints are.
/// Errors: those of Trajectory::Read().
Result<GramReport> Gram(const Trajectory& run, const TrajectorySelection& selection,
                        const GramOptions& options = {});

}  // namespace dsckpt

#endif  // DSCKPT_GRAM_H_
