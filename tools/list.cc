// dsckpt ls: the checkpoints of a run.

#include <memory>
#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "merge/paths.h"
#include "tools/commands.h"
#include "tools/inspect/inspect.h"
#include "tools/operand.h"
#include "tools/terminal/format.h"
#include "tools/terminal/json.h"
#include "tools/terminal/table.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

void ListJson(Console& console, const RunDirectory& run) {
  JsonWriter json(console);
  json.BeginObject(JsonWriter::Layout::kLines);
  json.Key("schema").String("dsckpt.run/1");
  json.Key("path").String(run.path());
  json.Key("latest");
  run.latest_name() ? json.String(*run.latest_name()) : json.Null();
  json.Key("checkpoints").BeginArray(JsonWriter::Layout::kLines);
  for (const RunEntry& entry : run.checkpoints()) {
    json.BeginObject();
    json.Key("name").String(entry.name);
    json.Key("step");
    entry.step ? json.Int(*entry.step) : json.Null();
    json.Key("step_source");
    const char* const source = StepSourceText(entry.step_source);
    source != nullptr ? json.String(source) : json.Null();
    json.Key("serial").Uint(entry.serial);
    json.Key("parent").Uint(entry.parent);
    json.Key("abandoned").Bool(entry.abandoned);
    json.Key("shards").Uint(entry.shards);
    json.Key("bytes").Uint(entry.bytes);
    json.End();
  }
  json.End();
  json.Key("ignored_entries").BeginArray(JsonWriter::Layout::kLines);
  for (const auto& [name, why] : run.ignored_entries()) {
    json.BeginObject();
    json.Key("name").String(name);
    json.Key("why").Sentence(why);
    json.End();
  }
  json.End();
  json.End();
}

void ListText(Console& console, const RunDirectory& run) {
  using Align = Column::Align;
  const auto& checkpoints = run.checkpoints();
  if (!checkpoints.empty()) {
    PrintTable(console,
               {{"STEP", Align::kRight},
                {"CHECKPOINT", Align::kLeft, true},
                {"SHARDS", Align::kRight},
                {"SIZE", Align::kRight},
                {"STATE"}},
               checkpoints.size(), [&](size_t row, std::vector<std::string>& cells) {
                 const RunEntry& entry = checkpoints[row];
                 cells = {entry.step ? std::to_string(*entry.step) : "unknown",
                          TerminalName(entry.name), Grouped(entry.shards), HumanBytes(entry.bytes),
                          entry.name == run.latest_name() ? "latest"
                          : entry.abandoned               ? "abandoned"
                                                          : ""};
               });
  }
  for (const auto& [name, why] : run.ignored_entries()) {
    console.Print("{}: not counted: {}\n", TerminalName(name), SafeText(why));
  }
}

bool LatestStands(const RunDirectory& run) {
  for (const RunEntry& entry : run.checkpoints()) {
    if (entry.name == run.latest_name()) return true;
  }
  return false;
}

}  // namespace

int ListRun(Console& console, const std::string& path) {
  const auto run = RunDirectory::Open(path);
  if (!run.ok()) return console.Fail(run.status());
  if (console.json()) {
    ListJson(console, *run);
  } else {
    ListText(console, *run);
  }
  if (run->latest_name() && !LatestStands(*run)) {
    console.Note(Format("'latest' names {}, which is no complete checkpoint here",
                        TerminalName(*run->latest_name())));
  }
  if (!run->checkpoints().empty()) return kExitOk;
  if (const auto aside = run->Latest(merge::kAtOnce); aside.ok()) {
    console.Note(
        Format("{} stands for it until the next save mends this: a replacement was stopped",
               TerminalName(aside->path())));
    return kExitOk;
  }
  console.Note(path + ": no complete checkpoint");
  return kExitNo;
}

Command AddList(Program& program) {
  auto path = std::make_shared<std::string>();
  CommandLine line = program.AddCommand("ls", "List the checkpoints of a run");
  line.Add("RUN", *path, "The run's directory").Required().Placeholder(" ");
  line.Footer(
      "Examples:\n"
      "  dsckpt ls run\n"
      "  dsckpt ls run --json | jq -r '.checkpoints[-1].name'\n"
      "\n"
      "Complete checkpoints in the order in which they were saved, those whose step nobody\n"
      "knows last; then what else lies there and why it does not count. STATE: the run goes on\n"
      "from 'latest'; 'abandoned': saved before the run was set back to an earlier one.\n"
      "--json, schema dsckpt.run/1: path; latest, a name or null; checkpoints, each with name,\n"
      "step and step_source (manifest, attribute, metadata or name; null where nobody knows\n"
      "it), serial (which save it was; 0: unknown), parent (the serial of the save that it went\n"
      "on from; 0: of none, or unknown), abandoned, shards and bytes; ignored_entries, each with "
      "name\n"
      "and why.\n"
      "Exit code: 0 there are some; 1 there is none; 2 could not look.");
  return {line, [path](Console& console) {
            const auto operand = ToOperand(*path);
            if (operand.ok() && operand->kind == OperandKind::kRun) return ListRun(console, *path);
            if (operand.ok() && !merge::IsDirectory(*path)) return ListRun(console, *path);
            return console.Fail(
                operand.ok()
                    ? Status(StatusCode::kInvalidArgument,
                             *path + " is no run, but one checkpoint or model: dsckpt inspect "
                                     "shows what it holds")
                          .WithPath(*path)
                    : operand.status());
          }};
}

}  // namespace dsckpt::tools
