// trace as JSON: one document (dsckpt.trace/1), or one row a line; and as CSV.

#include <algorithm>
#include <cmath>
#include <string>

#include "merge/number_text.h"
#include "tools/items.h"
#include "tools/operand.h"
#include "tools/rows.h"
#include "tools/terminal/console.h"
#include "tools/terminal/json.h"
#include "tools/terminal/text.h"
#include "tools/trace/trace.h"
#include "tools/value.h"

namespace dsckpt::tools {
namespace {

void Step(JsonWriter& json, const char* key, std::optional<int64_t> step) {
  json.Key(key);
  step ? json.Int(*step) : json.Null();
}

void Number(JsonWriter& json, const char* key, std::optional<double> number) {
  json.Key(key);
  number&& std::isfinite(*number) ? json.Double(*number) : json.Null();
}

void Count64(JsonWriter& json, const char* key, std::optional<uint64_t> number) {
  json.Key(key);
  number ? json.Uint(*number) : json.Null();
}

void Digest(JsonWriter& json, const char* key, const std::optional<Hash128>& digest) {
  json.Key(key);
  digest ? json.String(HexDigest(*digest)) : json.Null();
}

uint64_t Elements(const TraceRow& row) {
  const auto elements = ElementCount(row.form.shape);
  return elements.ok() ? *elements : 0;
}

/// What statistics say beyond counts; nothing where no element is finite.
struct Moments {
  std::optional<double> min, max, norm, rms;
};

Moments MomentsOf(const TraceRow& row) {
  if (!row.statistics) return {};
  const TensorStatistics& s = *row.statistics;
  const uint64_t finite = Elements(row) - std::min(Elements(row), s.nan + s.inf);
  if (finite == 0) return {};
  const double norm = std::sqrt(s.sum_squares);
  return {s.min, s.max, norm, norm / std::sqrt(static_cast<double>(finite))};
}

void WriteRow(JsonWriter& json, const TraceRow& row) {
  const Moments moments = MomentsOf(row);
  const auto& s = row.statistics;
  json.BeginObject();
  Step(json, "step", row.step);
  Step(json, "prev_step", row.prev_step);
  json.Key("name").String(row.name);
  json.Key("group").String(row.group);
  Count64(json, "layer", row.layer);
  json.Key("dtype").String(DTypeText(row.form.dtype));
  json.Key("n").Uint(Elements(row));
  Count64(json, "nan", s ? std::optional(s->nan) : std::nullopt);
  Count64(json, "inf", s ? std::optional(s->inf) : std::nullopt);
  Count64(json, "zero", s ? std::optional(s->zero) : std::nullopt);
  Number(json, "min", moments.min);
  Number(json, "max", moments.max);
  Number(json, "norm", moments.norm);
  Number(json, "rms", moments.rms);
  Digest(json, "digest", row.digest);
  Step(json, "same_as_step", row.same_as_step);
  json.Key("changed");
  row.changed ? json.Bool(*row.changed) : json.Null();
  json.End();
}

void WriteSteps(JsonWriter& json, const Trace& trace) {
  json.Key("steps").BeginArray(JsonWriter::Layout::kLines);
  for (size_t k = 0; k < trace.selection.checkpoints.size(); ++k) {
    const uint32_t t = trace.selection.checkpoints[k];
    json.BeginObject();
    Step(json, "step", trace.run.step(t));
    json.Key("step_source");
    const char* const source = StepSourceText(trace.run.step_source(t));
    source != nullptr ? json.String(source) : json.Null();
    json.Key("path").String(trace.run.path(t));
    json.Key("operand").String(trace.run.operand(t));
    json.Key("attributes").BeginObject();
    for (const auto& [name, value] : trace.run.attributes(t)) {
      json.Key(name);
      WriteValueJson(json, value);
    }
    json.End();
    Digest(json, "tree_digest", trace.run.TreeDigest(t));
    Count64(json, "changed", trace.changed[k]);
    json.End();
  }
  json.End();
}

void WriteEvents(JsonWriter& json, const Trace& trace) {
  json.Key("events").BeginArray(JsonWriter::Layout::kLines);
  for (const TrajectoryEvent& event : trace.events) {
    json.BeginObject();
    json.Key("kind").String(TrajectoryEventName(event.kind));
    Step(json, "step", event.step);
    Step(json, "other_step", event.other ? trace.run.step(*event.other) : std::nullopt);
    json.Key("name");
    const std::string_view name = event.tensor ? trace.run.tensor(*event.tensor).name : "";
    event.tensor ? json.String(name) : json.Null();
    json.Key("group");
    event.tensor ? json.String(NamePattern(name)) : json.Null();
    Number(json, "value", event.value);
    Number(json, "threshold", event.threshold);
    json.Key("command").Sentence(CommandFor(trace, event));
    json.End();
  }
  json.End();
}

std::string CsvNumber(std::optional<double> number) {
  return number && std::isfinite(*number) ? merge::DoubleText(*number) : std::string();
}

template <typename Integer>
std::string CsvInteger(std::optional<Integer> number) {
  return number ? std::to_string(*number) : std::string();
}

void WriteCsvRow(Console& console, const TraceRow& row) {
  const Moments m = MomentsOf(row);
  const auto count = [&](uint64_t TensorStatistics::*field) {
    return row.statistics ? std::to_string((*row.statistics).*field) : std::string();
  };
  console.Print("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", CsvInteger(row.step),
                CsvInteger(row.prev_step), CsvText(row.name), CsvText(row.group),
                CsvInteger(row.layer), DTypeText(row.form.dtype), Elements(row),
                count(&TensorStatistics::nan), count(&TensorStatistics::inf),
                count(&TensorStatistics::zero), CsvNumber(m.min), CsvNumber(m.max),
                CsvNumber(m.norm), CsvNumber(m.rms), row.digest ? HexDigest(*row.digest) : "",
                CsvInteger(row.same_as_step),
                !row.changed   ? ""
                : *row.changed ? "true"
                               : "false");
}

}  // namespace

void TraceJson(Console& console, const Trace& trace) {
  JsonWriter json(console);
  json.BeginObject(JsonWriter::Layout::kLines);
  json.Key("schema").String("dsckpt.trace/1");
  WriteSteps(json, trace);
  json.Key("rows").BeginArray(JsonWriter::Layout::kLines);
  ForEachRow(trace, [&](const TraceRow& row) {
    WriteRow(json, row);
    return console.writable();
  });
  json.End();
  WriteEvents(json, trace);
  json.Key("skipped").BeginArray(JsonWriter::Layout::kLines);
  for (const auto& [path, why] : trace.run.skipped()) {
    json.BeginObject();
    json.Key("path").String(path);
    json.Key("why").Sentence(why);
    json.End();
  }
  json.End();
  json.Key("read_bytes").Uint(trace.run.index_bytes());
  json.Key("seconds").Double(trace.seconds);
  json.End();
}

void TraceRows(Console& console, const Trace& trace, const TraceOptions& options) {
  const bool csv = options.format == "csv";
  if (csv) {
    console.Write(
        "step,prev_step,name,group,layer,dtype,n,nan,inf,zero,min,max,norm,rms,digest,"
        "same_as_step,changed\n");
  }
  uint64_t rows = 0;
  ForEachRow(trace, [&](const TraceRow& row) {
    if (options.limit && *options.limit != 0 && rows++ >= *options.limit) return false;
    if (csv) {
      WriteCsvRow(console, row);
    } else {
      JsonWriter json(console);
      WriteRow(json, row);
    }
    return console.writable();
  });
}

}  // namespace dsckpt::tools
