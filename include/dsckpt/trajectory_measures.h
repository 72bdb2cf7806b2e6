#ifndef DSCKPT_TRAJECTORY_MEASURES_H_
#define DSCKPT_TRAJECTORY_MEASURES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dsckpt/analysis.h"
#include "dsckpt/export.h"
#include "dsckpt/status.h"
#include "dsckpt/trajectory.h"
#include "dsckpt/trajectory_events.h"

// How the tensors of a run move, from their elements.

namespace DSCKPT_EXPORT dsckpt {

/// How a tensor, or several together, has moved from one checkpoint to another. Sums are over the
/// elements that are finite in both; complex elements count by their modulus.
struct TensorUpdate {
  /// The number of elements, those that are finite in both checkpoints, and those with other bits.
  uint64_t count = 0, finite = 0, changed = 0;
  /// The sums of (b - a)^2 and of (b - a)(b + a), where a is the element before and b the element
  /// after.
  double squares = 0, cross = 0;
  /// The sums of a^2 and of b^2.
  double squares_before = 0, squares_after = 0;

  /// Returns |b - a|, the norm of the update.
  double Norm() const;
  /// Returns the square root of the mean of the squares of the update; 0 when no pair is finite.
  double Rms() const;
  /// Returns |b - a| / |a|; nothing where |a| is 0.
  std::optional<double> Ratio() const;
  /// Returns 1 - cos of the angle between a and b; nothing where a norm is 0. It is exact for small
  /// angles too.
  std::optional<double> Angle() const;
  /// Returns the share of elements with other bits; 0 of no elements.
  double ChangedShare() const;
  /// Returns the update of the elements of both.
  TensorUpdate With(const TensorUpdate& other) const;
};

/// Two updates that follow each other, over the elements that are finite in all three checkpoints.
struct UpdateTurn {
  /// The sum of the products of both updates, and the sums of the squares of the later and of the
  /// earlier one.
  double dot = 0, squares = 0, squares_before = 0;

  /// Returns the cosine of the angle between both; nothing where one of them is 0.
  std::optional<double> Cosine() const;
  /// Returns the turn of the elements of both.
  UpdateTurn With(const UpdateTurn& other) const;
};

/// One tensor in one checkpoint.
struct TensorMeasure {
  /// The checkpoint and the tensor, by position in the trajectory.
  uint32_t checkpoint = 0, tensor = 0;
  /// What its elements are.
  TensorMoments moments;
  /// The first element that is NaN, in row-major order.
  std::optional<uint64_t> first_nan;
  /// The checkpoint that it is compared with: the selected one before that has the tensor, or
  /// MeasureOptions::against.
  std::optional<uint32_t> before;
  /// How it has moved since; nothing where there is nothing before, or dtype or shape are others.
  std::optional<TensorUpdate> update;
  /// This update and the one before it; nothing where there are no two, or where one of them
  /// changed nothing. Never known with MeasureOptions::against.
  std::optional<UpdateTurn> turn;
  /// How far it is from the first selected checkpoint that has the tensor in the present dtype and
  /// shape without a change of them since: |b - a|; 0 in that checkpoint itself.
  double distance = 0;
};

/// Measures that are known from earlier runs of Measure(), by the content of tensors: what two
/// trajectories share is measured once. It is kept as a file of JSON Lines, one measure a line;
/// such files can be put together with `cat`. Not thread-safe.
class MeasureCache {
 public:
  /// The content of a tensor: a digest, or what stands for one. Empty: not known.
  using Key = std::string;
  /// A measure of one tensor.
  struct Moments {
    /// What the elements are.
    TensorMoments moments;
    /// The first element that is NaN, in row-major order.
    std::optional<uint64_t> first_nan;
  };

  MeasureCache();
  ~MeasureCache();
  MeasureCache(MeasureCache&&) noexcept;
  MeasureCache& operator=(MeasureCache&&) noexcept;

  /// Adds what a file holds. A file that does not exist holds nothing; lines of another version,
  /// and a last line that is cut off, are left out.
  /// Errors: kCorrupt for a file that is none of this kind; those of the file system.
  Status Load(const std::string& path);
  /// Writes what has been added since the last call, and what was loaded from other files, to the
  /// file: what stood there stays, and a cut-off last line is ended. It is durable then.
  Status Save(const std::string& path);

  /// Returns what is known, or null. Valid until the next Add...().
  const Moments* FindMoments(const Key& key) const;
  /// The same for a move between two contents.
  const TensorUpdate* FindUpdate(const Key& before, const Key& after) const;
  /// The same for two moves that follow each other.
  const UpdateTurn* FindTurn(const Key& first, const Key& second, const Key& third) const;
  /// Adds a measure; one that is known already is left as it is.
  void AddMoments(const Key& key, const Moments& moments);
  void AddUpdate(const Key& before, const Key& after, const TensorUpdate& update);  ///< The same.
  void AddTurn(const Key& first, const Key& second, const Key& third,
               const UpdateTurn& turn);  ///< The same.
  /// Returns the number of measures.
  size_t size() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// How Measure() works.
struct MeasureOptions {
  /// How tensors are read. `progress` counts bytes of tensors in all checkpoints.
  AnalysisOptions reading = {};
  /// How much memory holds elements at a time, in bytes; at least 64 MiB are taken.
  uint64_t memory = 256 << 20;
  /// The checkpoint that all are compared with, by position; nothing: each with the selected one
  /// before.
  std::optional<uint32_t> against = {};
  /// What is known is taken from here and what is measured is added: only tensors with something
  /// unknown are read, in the checkpoints that it takes. Null: nothing is kept.
  MeasureCache* cache = nullptr;
};

/// What Measure() went through.
struct MeasureSummary {
  /// Bytes of tensors that were read.
  uint64_t read_bytes = 0;
  /// Tensors that cannot be measured, whose dtype is packed or unknown, by position, and their
  /// bytes in all selected checkpoints.
  std::vector<uint32_t> skipped;
  uint64_t skipped_bytes = 0;  ///< See above.
};

/// Receives the rows of one tensor, in the order of checkpoints. An error ends Measure(), which
/// returns it.
using TakeMeasures =
    std::function<Status(uint32_t tensor, std::span<const TensorMeasure> measures)>;

/// Reads the selected tensors in the selected checkpoints, each byte at most once, and says what
/// they are and how they move. Content that indexes show to be that of the checkpoint before is not
/// read again. `take` is called in the order of tensors, from the thread of the caller.
///
/// Numbers have the same bits whatever the machine, the number of threads, the memory and the cache
/// are.
/// Errors: those of Checkpoint::ReadBytes(); those of `take`.
Result<MeasureSummary> Measure(const Trajectory& run, const TrajectorySelection& selection,
                               const TakeMeasures& take, const MeasureOptions& options = {});

/// Divides the selected tensors into `parts` lists of nearly equal bytes, for as many processes;
/// the same lists in each of them. Some are empty where there are fewer tensors.
/// REQUIRES: parts > 0.
std::vector<std::vector<uint32_t>> DivideTensors(const Trajectory& run,
                                                 const TrajectorySelection& selection,
                                                 uint32_t parts);

/// Returns whether an update changes elements, but its root mean square is less than half the
/// distance of neighbouring numbers of the dtype at the tensor's own root mean square: what is seen
/// of it is rounding.
bool IsCoarse(const TensorMeasure& measure, DType dtype);

/// Returns what happened to one tensor, as FindEvents() does, from measures of its elements: NaN,
/// infinities and dead tensors are found also where indexes have no statistics; jumps are those of
/// updates by step; kCoarse is found only here. `measures`: its rows from Measure().
std::vector<TrajectoryEvent> FindTensorEvents(const Trajectory& run,
                                              const TrajectorySelection& selection, uint32_t tensor,
                                              std::span<const TensorMeasure> measures);
/// Returns what happened to checkpoints as wholes: duplicates and missing steps.
std::vector<TrajectoryEvent> FindRunEvents(const Trajectory& run,
                                           const TrajectorySelection& selection);
/// Puts events in the order of FindEvents().
void SortEvents(std::vector<TrajectoryEvent>& events);

}  // namespace dsckpt

#endif  // DSCKPT_TRAJECTORY_MEASURES_H_
