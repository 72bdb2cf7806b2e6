#ifndef DSCKPT_TRAJECTORY_MEASURE_LINE_H_
#define DSCKPT_TRAJECTORY_MEASURE_LINE_H_

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "dsckpt/encoding.h"
#include "dsckpt/status.h"
#include "dsckpt/trajectory_measures.h"

// One measure as a line of a cache:
//
//   {"measure":"moments/1","of":[KEY],"values":[count,nan,inf,zero,min,max,mean,squared_deviations,
//     first_nan]}
//   {"measure":"update/1","of":[KEY,KEY],"values":[count,finite,changed,squares,cross,
//     squares_before,squares_after]}
//   {"measure":"turn/1","of":[KEY,KEY,KEY],"values":[dot,squares,squares_before]}
//
// KEY is 32 hexadecimal digits. A number that is not finite is "nan", "inf" or "-inf", and a first
// NaN that is not there is null.

namespace dsckpt::trajectory {

/// Lines of later versions may be longer than those of this one, but not by any length.
inline constexpr size_t kMaxMeasureLine = 64 << 10;

/// What a line says. The number of keys is 1, 2 or 3 by the kind of the measure; nothing in
/// `measure`: this release does not know its kind or version.
struct MeasureLine {
  std::array<Hash128, 3> of;
  std::variant<std::monostate, MeasureCache::Moments, TensorUpdate, UpdateTurn> measure;
};

/// 32 hexadecimal digits as their number.
std::optional<Hash128> ParseMeasureKey(std::string_view text);

/// Appends the line with its end.
void AppendMeasureLine(std::string& out, std::span<const Hash128> of,
                       const MeasureCache::Moments& measure);
void AppendMeasureLine(std::string& out, std::span<const Hash128> of, const TensorUpdate& measure);
void AppendMeasureLine(std::string& out, std::span<const Hash128> of, const UpdateTurn& measure);

/// Whether a line, which ParseMeasureLine() refuses, is the beginning of one: a process ended while
/// it wrote.
bool IsCutMeasureLine(std::string_view line);

/// `line`: without its end. kCorrupt says what is wrong with it.
Result<MeasureLine> ParseMeasureLine(std::string_view line);

}  // namespace dsckpt::trajectory

#endif  // DSCKPT_TRAJECTORY_MEASURE_LINE_H_
