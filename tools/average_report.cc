#include "tools/average_report.h"

#include "tools/terminal/console.h"
#include "tools/terminal/format.h"
#include "tools/terminal/json.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {

namespace {

void WriteFrom(JsonWriter& json, const Trajectory& run, const AverageReport& report) {
  json.Key("from").BeginArray(JsonWriter::Layout::kLines);
  for (const AverageTerm& term : report.terms) {
    const auto step = run.step(term.checkpoint);
    json.BeginObject();
    json.Key("checkpoint").String(run.operand(term.checkpoint));
    json.Key("step");
    step ? json.Int(*step) : json.Null();
    json.Key("weight").Double(term.weight);
    json.End();
  }
  json.End();
}

void WriteFound(JsonWriter& json, const AverageReport& report) {
  json.Key("copied").BeginArray(JsonWriter::Layout::kLines);
  for (const AverageReport::Copied& each : report.copied) {
    json.BeginObject();
    json.Key("name").String(each.name);
    json.Key("equal");
    each.equal ? json.Bool(*each.equal) : json.Null();
    json.End();
  }
  json.End();
  json.Key("nonfinite").BeginArray(JsonWriter::Layout::kLines);
  for (const AverageReport::NonFinite& each : report.nonfinite) {
    json.BeginObject();
    json.Key("name").String(each.name);
    json.Key("nan").Uint(each.nan);
    json.Key("inf").Uint(each.inf);
    json.End();
  }
  json.End();
}

/// What an average does not show by itself.
void NoteFound(Console& console, const std::string& output, const AverageReport& report) {
  const auto name = [&](const std::string& text) { return TerminalName(text); };
  if (!report.nonfinite.empty()) {
    uint64_t nan = 0, inf = 0;
    for (const auto& each : report.nonfinite) {
      nan += each.nan;
      inf += each.inf;
    }
    console.Note(Format("warning: {}: {} NaN and {} infinite elements in {}, {} among them", output,
                        Grouped(nan), Grouped(inf), Count(report.nonfinite.size(), "tensor"),
                        name(report.nonfinite[0].name)));
  }
  if (report.became_infinite != 0) {
    console.Note(Format("warning: {}: {} too large for the dtype and became infinite", output,
                        report.became_infinite == 1
                            ? "1 element was"
                            : Grouped(report.became_infinite) + " elements were"));
  }
  if (report.copied.empty()) return;
  uint64_t differing = 0, unknown = 0;
  for (const auto& each : report.copied) {
    if (!each.equal) ++unknown;
    if (each.equal == std::optional(false)) ++differing;
  }
  std::string rest;
  if (differing != 0) rest += Format("; checkpoints differ in {}", Grouped(differing));
  if (unknown != 0) {
    rest += Format("; whether they differ in {} is not known from indexes", Grouped(unknown));
  }
  console.Note(
      Format("{}: copied from the last checkpoint, for want of an average: {}, {} among "
             "them{}",
             output, Count(report.copied.size(), "tensor"), name(report.copied[0].name), rest));
}

}  // namespace

void ReportAveragesJson(Console& console, const Trajectory& run, const WrittenAverages& written) {
  const auto& [planned, reports, seconds] = written;
  JsonWriter json(console);
  json.BeginObject(JsonWriter::Layout::kLines);
  json.Key("schema").String("dsckpt.average/1");
  json.Key("averages").BeginArray(JsonWriter::Layout::kLines);
  for (size_t i = 0; i < reports.size(); ++i) {
    const AverageReport& report = reports[i];
    json.BeginObject(JsonWriter::Layout::kLines);
    json.Key("output").String(planned[i].output);
    json.Key("alpha");
    planned[i].alpha ? json.Double(*planned[i].alpha) : json.Null();
    WriteFrom(json, run, report);
    json.Key("averaged").Uint(report.averaged);
    WriteFound(json, report);
    json.Key("became_infinite").Uint(report.became_infinite);
    json.Key("cast").Uint(report.output.cast);
    json.Key("objects").Uint(report.output.objects);
    json.Key("bytes").Uint(report.output.bytes);
    json.Key("read_bytes").Uint(report.read_bytes);
    json.End();
  }
  json.End();
  json.Key("seconds").Double(seconds);
  json.End();
}

void ReportAverages(Console& console, const WrittenAverages& written) {
  const auto& [planned, reports, seconds] = written;
  uint64_t read = 0;
  for (size_t i = 0; i < reports.size(); ++i) {
    const AverageReport& report = reports[i];
    console.Print("{}: {} of {} averaged, {}\n", SafeText(planned[i].output),
                  Count(report.averaged, "tensor"), Count(report.terms.size(), "checkpoint"),
                  HumanBytes(report.output.bytes));
    read += report.read_bytes;
  }
  console.Print("  {} read, {}\n", HumanBytes(read), Rate(read, seconds));
}

void NoteAverages(Console& console, const WrittenAverages& written) {
  for (size_t i = 0; i < written.reports.size(); ++i) {
    NoteFound(console, written.planned[i].output, written.reports[i]);
  }
}

}  // namespace dsckpt::tools
