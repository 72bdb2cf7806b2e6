// trace as JSON: what stands around the rows of the document (dsckpt.trace/1).

#include <cmath>
#include <functional>
#include <string>

#include "tools/groups.h"
#include "tools/items.h"
#include "tools/operand.h"
#include "tools/terminal/json.h"
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
    const auto other = event.other ? trace.run.step(*event.other) : std::nullopt;
    Step(json, "other_step", other);
    // What has NaN now had none in the checkpoint before.
    const bool nan = event.kind == TrajectoryEventKind::kNan;
    Step(json, "last_clean_step", nan ? other : std::nullopt);
    json.Key("name");
    const std::string_view name = event.tensor ? trace.run.tensor(*event.tensor).name : "";
    event.tensor ? json.String(name) : json.Null();
    json.Key("group");
    event.tensor ? json.String(NamePattern(name)) : json.Null();
    Count64(json, "element", event.element);
    Number(json, "value", event.value);
    Number(json, "threshold", event.threshold);
    json.Key("command").Sentence(CommandFor(trace, event));
    json.End();
  }
  json.End();
}

void WriteLeftOut(JsonWriter& json, const Trace& trace) {
  json.Key("skipped").BeginObject();
  json.Key("tensors").Uint(trace.summary.skipped.size());
  json.Key("bytes").Uint(trace.summary.skipped_bytes);
  json.Key("why");
  trace.summary.skipped.empty() ? json.Null() : json.Sentence("dtypes that are packed or unknown");
  json.End();
  json.Key("left_out").BeginArray(JsonWriter::Layout::kLines);
  for (const auto& [path, why] : trace.run.skipped()) {
    json.BeginObject();
    json.Key("path").String(path);
    json.Key("why").Sentence(why);
    json.End();
  }
  json.End();
}

/// Members of an object whose members are lines, without what is around them.
std::string MembersText(const std::function<void(JsonWriter&)>& write) {
  constexpr std::string_view kBefore = "{\n  ", kBehind = "\n}\n";
  std::string text;
  JsonWriter json(text);
  json.BeginObject(JsonWriter::Layout::kLines);
  write(json);
  json.End();
  return text.substr(kBefore.size(), text.size() - kBefore.size() - kBehind.size());
}

}  // namespace

std::string TraceJsonHead(const Trace& trace, const std::string& by) {
  return MembersText([&](JsonWriter& json) {
    json.Key("schema").String("dsckpt.trace/1");
    json.Key("by").String(by);
    json.Key("quick").Bool(trace.quick);
    WriteSteps(json, trace);
  });
}

std::string TraceJsonTail(const Trace& trace) {
  return MembersText([&](JsonWriter& json) {
    WriteEvents(json, trace);
    WriteLeftOut(json, trace);
    json.Key("read_bytes").Uint(trace.summary.read_bytes);
    json.Key("index_bytes").Uint(trace.run.index_bytes());
    json.Key("seconds").Double(trace.seconds);
  });
}

}  // namespace dsckpt::tools
