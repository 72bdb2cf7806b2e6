#include "trajectory/measure_line.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "base/text.h"
#include "merge/number_text.h"

namespace dsckpt::trajectory {

namespace {

constexpr std::string_view kLineBegin = "{\"measure\":\"";
constexpr std::string_view kMomentsLine = "moments/1", kUpdateLine = "update/1",
                           kTurnLine = "turn/1";

/// The numbers of a measure, in the order of the line.
template <typename Measure, typename Visit>
void EachMomentsValue(Measure& m, const Visit& visit) {
  auto& moments = m.moments;
  visit(moments.count), visit(moments.nan), visit(moments.inf), visit(moments.zero);
  visit(moments.min), visit(moments.max), visit(moments.mean), visit(moments.squared_deviations);
  visit(m.first_nan);
}

template <typename Measure, typename Visit>
void EachUpdateValue(Measure& m, const Visit& visit) {
  visit(m.count), visit(m.finite), visit(m.changed);
  visit(m.squares), visit(m.cross), visit(m.squares_before), visit(m.squares_after);
}

template <typename Measure, typename Visit>
void EachTurnValue(Measure& m, const Visit& visit) {
  visit(m.dot), visit(m.squares), visit(m.squares_before);
}

std::string ValueJson(uint64_t value) { return std::to_string(value); }
std::string ValueJson(double value) {
  const std::string text = merge::DoubleText(value);
  return std::isfinite(value) ? text : '"' + text + '"';
}
std::string ValueJson(const std::optional<uint64_t>& value) {
  return value ? std::to_string(*value) : "null";
}

bool TakeValue(const nlohmann::json& json, uint64_t& value) {
  if (!json.is_number_unsigned()) return false;
  value = json.get<uint64_t>();
  return true;
}

bool TakeValue(const nlohmann::json& json, double& value) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (json.is_number()) {
    value = json.get<double>();
  } else if (json == "inf" || json == "-inf") {
    value = json == "inf" ? kInfinity : -kInfinity;
  } else if (json == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    return false;
  }
  return true;
}

bool TakeValue(const nlohmann::json& json, std::optional<uint64_t>& value) {
  if (json.is_null()) return true;
  return TakeValue(json, value.emplace());
}

/// Appends each value that it is called with.
class ValuesWriter {
 public:
  ValuesWriter(std::string& out, std::string_view kind, std::span<const Hash128> of) : out_(out) {
    out_.append(kLineBegin).append(kind).append("\",\"of\":");
    char separator = '[';
    for (const Hash128& key : of) {
      out_ += separator;
      out_.append("\"").append(Hex64(key.high)).append(Hex64(key.low)).append("\"");
      separator = ',';
    }
    out_.append("],\"values\":");
  }
  ~ValuesWriter() { out_.append("]}\n"); }

  template <typename Value>
  void operator()(const Value& value) const {
    out_ += separator_;
    out_ += ValueJson(value);
    separator_ = ',';
  }

 private:
  std::string& out_;
  mutable char separator_ = '[';
};

/// Takes a value of the line each time it is called.
class ValuesReader {
 public:
  explicit ValuesReader(const nlohmann::json& values) : values_(values) {}

  template <typename Value>
  void operator()(Value& value) const {
    good_ = good_ && next_ < values_.size() && TakeValue(values_[next_++], value);
  }
  bool Done() const { return good_ && next_ == values_.size(); }

 private:
  const nlohmann::json& values_;
  mutable size_t next_ = 0;
  mutable bool good_ = true;
};

/// Counts of elements that contradict each other would make more of them than there are.
bool IsSound(const MeasureCache::Moments& m) {
  const TensorMoments& moments = m.moments;
  const bool counts = moments.nan <= moments.count && moments.inf <= moments.count - moments.nan &&
                      moments.zero <= moments.finite();
  return counts && m.first_nan.has_value() == (moments.nan != 0) &&
         m.first_nan.value_or(0) < std::max<uint64_t>(moments.count, 1);
}
bool IsSound(const TensorUpdate& m) { return m.finite <= m.count && m.changed <= m.count; }

Status BadLine(std::string_view what) {
  return Status(StatusCode::kCorrupt,
                "expected a line of measures as dsckpt trace --cache writes "
                "them, found " +
                    std::string(what));
}

bool ParseKeys(const nlohmann::json& json, size_t count, MeasureLine& line) {
  if (!json.is_array() || json.size() != count) return false;
  for (size_t i = 0; i < count; ++i) {
    const auto* const text = json[i].get_ptr<const std::string*>();
    const auto key = text == nullptr ? std::nullopt : ParseMeasureKey(*text);
    if (!key) return false;
    line.of[i] = *key;
  }
  return true;
}

bool ParseValues(std::string_view kind, const ValuesReader& reader, MeasureLine& line) {
  if (kind == kMomentsLine) {
    auto& measure = line.measure.emplace<MeasureCache::Moments>();
    EachMomentsValue(measure, reader);
    return reader.Done() && IsSound(measure);
  }
  if (kind == kUpdateLine) {
    auto& measure = line.measure.emplace<TensorUpdate>();
    EachUpdateValue(measure, reader);
    return reader.Done() && IsSound(measure);
  }
  EachTurnValue(line.measure.emplace<UpdateTurn>(), reader);
  return reader.Done();
}

}  // namespace

std::optional<Hash128> ParseMeasureKey(std::string_view text) {
  constexpr size_t kHalf = 16;
  Hash128 key;
  const auto take = [&](size_t from, uint64_t& half) {
    const char* const begin = text.data() + from;
    const auto [end, error] = std::from_chars(begin, begin + kHalf, half, 16);
    return error == std::errc() && end == begin + kHalf;
  };
  if (text.size() != 2 * kHalf || !take(0, key.high) || !take(kHalf, key.low)) return std::nullopt;
  return key;
}

void AppendMeasureLine(std::string& out, std::span<const Hash128> of,
                       const MeasureCache::Moments& measure) {
  EachMomentsValue(measure, ValuesWriter(out, kMomentsLine, of));
}

void AppendMeasureLine(std::string& out, std::span<const Hash128> of, const TensorUpdate& measure) {
  EachUpdateValue(measure, ValuesWriter(out, kUpdateLine, of));
}

void AppendMeasureLine(std::string& out, std::span<const Hash128> of, const UpdateTurn& measure) {
  EachTurnValue(measure, ValuesWriter(out, kTurnLine, of));
}

bool IsCutMeasureLine(std::string_view line) {
  // A brace that closes stands at the end of a line alone.
  return kLineBegin.starts_with(line) ||
         (line.starts_with(kLineBegin) && line.find('}') == std::string_view::npos);
}

Result<MeasureLine> ParseMeasureLine(std::string_view line) {
  if (!line.starts_with(kLineBegin))
    return BadLine("none that begins with " + std::string(kLineBegin));
  const nlohmann::json json = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
  if (json.is_discarded()) return BadLine("no JSON");
  const auto kind = json.find("measure");
  if (!kind->is_string()) return BadLine("no name of a measure");
  const std::string& name = kind->get_ref<const std::string&>();
  MeasureLine parsed;
  const size_t keys = name == kMomentsLine  ? 1
                      : name == kUpdateLine ? 2
                      : name == kTurnLine   ? 3
                                            : 0;
  if (keys == 0) return parsed;
  const auto of = json.find("of"), values = json.find("values");
  if (of == json.end() || !ParseKeys(*of, keys, parsed)) return BadLine("keys of another form");
  const bool known = values != json.end() && values->is_array() &&
                     ParseValues(name, ValuesReader(*values), parsed);
  if (!known) return BadLine("values of another form");
  return parsed;
}

}  // namespace dsckpt::trajectory
