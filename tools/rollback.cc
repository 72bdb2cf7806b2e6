// dsckpt rollback: an earlier checkpoint of a run becomes the one that training goes on from.

#include <algorithm>
#include <charconv>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/checkpoint_writer.h"
#include "tools/commands.h"
#include "tools/terminal/format.h"
#include "tools/terminal/json.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

struct Options {
  std::string run;
  std::string which;  // a step or a name
};

Status RollBackTo(const Options& options) {
  const std::string& text = options.which;
  int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  const bool number = error == std::errc() && end == text.data() + text.size();
  return number ? RollBack(options.run, step) : RollBack(options.run, text);
}

std::vector<std::string> Abandoned(const RunDirectory& run) {
  std::vector<std::string> names;
  for (const RunEntry& entry : run.checkpoints()) {
    if (entry.abandoned) names.push_back(entry.name);
  }
  return names;
}

int Roll(Console& console, const Options& options) {
  const auto before = RunDirectory::Open(options.run);
  if (!before.ok()) return console.Fail(before.status());
  if (const Status status = RollBackTo(options); !status.ok()) return console.Fail(status);
  const auto after = RunDirectory::Open(options.run);
  if (!after.ok()) return console.Fail(after.status());
  const std::vector<std::string> old = Abandoned(*before);
  std::vector<std::string> left = Abandoned(*after);
  std::erase_if(left, [&](const std::string& name) {
    return std::find(old.begin(), old.end(), name) != old.end();
  });
  const std::string latest = after->latest_name().value_or("");
  if (console.json()) {
    JsonWriter json(console);
    json.BeginObject(JsonWriter::Layout::kLines);
    json.Key("schema").String("dsckpt.rollback/1");
    json.Key("path").String(options.run);
    json.Key("latest").String(latest);
    json.Key("abandoned").BeginArray();
    for (const std::string& name : left) json.String(name);
    json.End();
    json.End();
    return kExitOk;
  }
  console.Print("{}: training goes on from {}\n", SafeText(options.run), TerminalName(latest));
  for (const std::string& name : left) console.Print("  abandoned: {}\n", TerminalName(name));
  if (left.empty()) console.Write("  no checkpoint became abandoned\n");
  return kExitOk;
}

}  // namespace

Command AddRollback(Program& program) {
  auto options = std::make_shared<Options>();
  CommandLine line =
      program.AddCommand("rollback", "Set a run back to an earlier checkpoint; remove nothing");
  line.Add("RUN", options->run, "The run's directory").Required().Placeholder(" ");
  line.Add("STEP", options->which, "The step to go on from, or the name of a checkpoint")
      .Required()
      .Placeholder(" ");
  line.Footer(
      "Examples:\n"
      "  dsckpt rollback run 1200\n"
      "  dsckpt rollback run step-0000001200\n"
      "\n"
      "The file 'latest' names that checkpoint afterwards: a resume takes it. This is atomic\n"
      "and durable. What was saved later stays as it is and counts as abandoned, which\n"
      "dsckpt ls shows; its steps can be saved again. Setting the run back to one of these\n"
      "undoes it. Refused while a job saves into the run.\n"
      "--json, schema dsckpt.rollback/1: path, latest (a name), abandoned (names of those\n"
      "that became so).\n"
      "Exit code: 0 done; 1 the checkpoint is incomplete or damaged; 2 could not do it.");
  return {line, [options](Console& console) { return Roll(console, *options); }};
}

}  // namespace dsckpt::tools
