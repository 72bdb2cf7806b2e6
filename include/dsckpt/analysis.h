#ifndef DSCKPT_ANALYSIS_H_
#define DSCKPT_ANALYSIS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/dtype.h"
#include "dsckpt/export.h"
#include "dsckpt/status.h"
#include "dsckpt/tensor_histogram.h"

namespace DSCKPT_EXPORT dsckpt {

/// How tensors are read for an analysis. Memory is at most three tiles of 4 MiB a thread, beside
/// the indexes. Where a checkpoint was opened with OpenOptions::map, raw tensors are looked at in
/// the mapping, without a copy.
struct AnalysisOptions {
  /// The number of threads; 0 means one for each core, at most 8. It does not change a bit of any
  /// number.
  int threads = 0;
  /// Whether checksums are checked.
  bool verify = true;
  /// Called now and then, from one thread at a time, with the bytes of the tensors that are done
  /// and of all. It must not throw.
  std::function<void(uint64_t done, uint64_t total)> progress = {};
};

/// Moments of the elements of one tensor, or of several together. Elements are widened to double;
/// those that are NaN or infinite are counted and left out of everything else. Complex elements
/// count by their modulus. Numbers are those of all elements, not of a sample: the standard
/// deviation divides by their count.
///
/// The order of additions depends on the positions of elements alone, so that equal tensors have
/// equal bits, whatever the machine and the number of threads.
struct TensorMoments {
  /// The number of elements.
  uint64_t count = 0;
  /// How many elements are NaN, an infinity, and 0 or -0.
  uint64_t nan = 0, inf = 0, zero = 0;
  /// The least and the greatest finite element; -0 is less than 0. Of no meaning when there is
  /// none.
  double min = 0, max = 0;
  /// The mean of the finite elements; 0 when there is none.
  double mean = 0;
  /// The sum of the squares of their distances from the mean.
  double squared_deviations = 0;

  /// Returns the number of finite elements.
  uint64_t finite() const { return count - nan - inf; }
  /// Returns the greatest absolute value of a finite element.
  double AbsMax() const;
  /// Returns the standard deviation of the finite elements (divisor: their count); 0 when there is
  /// none.
  double Std() const;
  /// Returns the square root of the sum of their squares.
  double Norm() const;
  /// Returns the square root of the mean of their squares; 0 when there is none.
  double Rms() const;
  /// Returns the moments of the elements of both.
  TensorMoments With(const TensorMoments& other) const;
};

/// What Moments() found.
struct MomentsReport {
  /// Of each tensor that was asked for, in that order; nothing for packed dtypes and for dtypes
  /// that this release does not know, whose elements are not read.
  std::vector<std::optional<TensorMoments>> tensors;
  /// How often elements of each size occur, of each of `tensors` that is known; empty where it was
  /// not asked for.
  std::vector<TensorHistogram> histograms;
  /// Bytes of tensors that were read.
  uint64_t read_bytes = 0;
};

/// Reads tensors and returns the moments of their elements, and if `histograms` how often elements
/// of each size occur, which takes as long again. `tensors`: ordinals.
/// Errors: those of Checkpoint::ReadBytes(), of the first tensor that has one.
Result<MomentsReport> Moments(const Checkpoint& checkpoint, std::span<const uint32_t> tensors,
                              const AnalysisOptions& options = {}, bool histograms = false);

/// How two tensors differ.
enum class DiffState : uint8_t {
  /// Same name, dtype, shape and bytes.
  kEqual,
  /// Other bytes, but equal by the criterion of DiffOptions.
  kClose,
  /// Other elements.
  kChanged,
  /// Only in the second checkpoint.
  kAdded,
  /// Only in the first checkpoint.
  kRemoved,
  /// Another shape. Elements are not compared.
  kReshaped,
  /// Another dtype. Elements are compared as doubles.
  kRetyped,
  /// Only its name is another: same dtype, shape and bytes.
  kMoved
};

/// Returns the word for a state, such as "changed". The text is static.
std::string_view DiffStateName(DiffState state);

/// How Diff() compares.
struct DiffOptions {
  /// How tensors are read.
  AnalysisOptions reading = {};
  /// Elements a and b are close when |b - a| <= absolute_tolerance + relative_tolerance x max(|a|,
  /// |b|). A tensor is close when all its elements are. With neither this nor `ulp` only equal
  /// bits are equal.
  std::optional<double> relative_tolerance = {}, absolute_tolerance = {};
  /// A tensor is also close when no element is further than this many numbers of its dtype away.
  std::optional<uint64_t> ulp = {};
  /// Whether two NaN with other bits are close. With equal bits they are equal in any case.
  bool nan_equal = true;
  /// Whether chunks that are equal by their checksums are read all the same: norms, ratio, angle
  /// and counts of NaN are known of whole tensors alone.
  bool whole = false;
  /// How many elements of each tensor TensorDiff::elements has at most. Memory is for as many a
  /// tensor and a thread.
  uint32_t show = 0;
  /// Returns the name by which a tensor of the first checkpoint is looked up in the second one, or
  /// nothing for a tensor that is left out. An error ends the comparison. Empty: its own name.
  std::function<Result<std::optional<std::string>>(std::string_view)> name_a = {};
  /// The same for tensors of the second checkpoint.
  std::function<Result<std::optional<std::string>>(std::string_view)> name_b = {};
};

/// What the elements of two tensors say, element by element. Sums are over pairs of finite
/// elements; complex elements count by their modulus.
struct Difference {
  /// The number of elements, and of those that were compared: the others are in chunks with equal
  /// checksums.
  uint64_t count = 0, compared = 0;
  /// Pairs of finite elements among the compared ones.
  uint64_t finite = 0;
  /// Elements that are NaN, among the compared ones.
  uint64_t nan_a = 0, nan_b = 0;
  /// Elements with other bits; after a change of dtype, with another value.
  uint64_t changed = 0;
  /// Elements that are not close by the tolerances of DiffOptions; without any it is 0.
  uint64_t beyond = 0;
  /// The greatest |b - a|, and the first element that has it, in row-major order.
  double max_abs = 0;
  uint64_t max_index = 0;  ///< Of no meaning where `max_abs` is 0.
  /// The greatest |b - a| / max(|a|, |b|); of two zeros it is 0.
  double max_rel = 0;
  /// The greatest number of steps from a to b among the numbers of the dtype, of pairs without
  /// NaN; nothing after a change of dtype.
  std::optional<uint64_t> max_ulp = {};
  /// Sums of (b - a)^2, of (b - a)(b + a), of a^2 and of b^2.
  double squared_difference = 0, cross = 0, squared_a = 0, squared_b = 0;

  /// Returns whether all elements were compared.
  bool whole() const { return compared == count; }
  /// Returns the difference of the elements of both, whose `max_index` is 0. `max_ulp` is of those
  /// that have one.
  Difference With(const Difference& other) const;
  /// Returns |b - a|, the norm of the difference.
  double Norm() const;
  /// Returns |b - a| / |a|; nothing where |a| is 0 or not known.
  std::optional<double> Ratio() const;
  /// Returns 1 - cos of the angle between a and b; nothing where a norm is 0 or not known. It is
  /// exact for small angles too.
  std::optional<double> Angle() const;
};

/// One element that differs.
struct ElementDiff {
  /// Its position in row-major order.
  uint64_t index = 0;
  /// Its value in both tensors, as a double; of a complex element the modulus.
  double a = 0, b = 0;
  /// |b - a|. It is infinite where that is no finite number, and 0 of two NaN.
  double distance = 0;
  /// The number of steps from a to b among the numbers of the dtype; nothing where one of them is
  /// NaN, and after a change of dtype.
  std::optional<uint64_t> ulp = {};
};

/// What Diff() says of one tensor.
struct TensorDiff {
  /// Its names in the first and in the second checkpoint; empty where it is not there.
  std::string name_a, name_b;
  /// How both differ.
  DiffState state = DiffState::kEqual;
  /// Its ordinals in both; of no meaning where it is not there.
  uint32_t tensor_a = 0, tensor_b = 0;
  /// Nothing where the elements were not compared: the digests are equal, shapes differ, it is on
  /// one side only, or its dtype is packed or unknown.
  std::optional<Difference> difference = {};
  /// With DiffOptions::show: of the elements with other bits those with the greatest distance, that
  /// first; of equal distances those with the lowest index.
  std::vector<ElementDiff> elements = {};
};

/// What Diff() found.
struct DiffReport {
  /// All tensors, in the order of their names.
  std::vector<TensorDiff> tensors;
  /// Bytes of tensors that were read, of both checkpoints.
  uint64_t read_bytes = 0;
};

/// Compares two checkpoints tensor by tensor. Tensors whose indexes have equal digests are equal
/// without being read; of others, chunks with equal checksums are not read (see
/// DiffOptions::whole). Everything else is compared byte by byte.
/// Errors: those of Checkpoint::ReadBytes(), of the first tensor that has one; kInvalidArgument
/// where two tensors of one checkpoint get one name.
Result<DiffReport> Diff(const Checkpoint& a, const Checkpoint& b, const DiffOptions& options = {});

}  // namespace dsckpt

#endif  // DSCKPT_ANALYSIS_H_
