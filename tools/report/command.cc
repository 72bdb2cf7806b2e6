// dsckpt report: a run as one page to look at.

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tools/commands.h"
#include "tools/output_file.h"
#include "tools/report/collect.h"
#include "tools/save.h"
#include "tools/selection_options.h"
#include "tools/terminal/format.h"
#include "tools/terminal/json.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

struct ReportOptions {
  TraceOptions trace;
  std::string title;
  uint64_t max_bytes = 5'000'000;
  OutputOptions output;
};

std::string TitleOf(const ReportOptions& options) {
  if (!options.title.empty()) return options.title;
  const std::string& first = options.trace.operands[0];
  const size_t others = options.trace.operands.size() - 1;
  return others == 0 ? first : first + " and " + Count(others, "other");
}

Status WritePage(const std::string& path, const std::string& page) {
  DSCKPT_ASSIGN_OR_RETURN(const auto out, OutputFile::Create(path));
  DSCKPT_RETURN_IF_ERROR(out->Write(std::as_bytes(std::span(page))));
  return out->Publish();
}

struct Written {
  uint64_t bytes = 0;
  double seconds = 0;
};

void Tell(Console& console, const Report& report, const ReportOptions& options,
          const Written& written) {
  const uint64_t steps = report.steps.size(), columns = report.cells.columns();
  const uint64_t findings = report.findings.size() + report.more_findings;
  if (console.json()) {
    JsonWriter json(console);
    json.BeginObject(JsonWriter::Layout::kLines);
    json.Key("schema").String("dsckpt.report/1");
    json.Key("output").String(options.output.output);
    json.Key("bytes").Uint(written.bytes);
    json.Key("checkpoints").Uint(steps);
    json.Key("columns").Uint(columns);
    json.Key("tensors").Uint(report.rows.size());
    json.Key("findings").Uint(findings);
    json.Key("skipped").Uint(report.scope.skipped);
    json.Key("read_bytes").Uint(report.scope.read_bytes);
    json.Key("seconds").Double(written.seconds);
    json.End();
    return;
  }
  console.Print("{}: {} in {}; {}; a page of {}; {} read in {:.2f} s\n",
                TerminalName(options.output.output), Count(report.rows.size(), "tensor"),
                Count(steps, "checkpoint"), Count(findings, "finding"), HumanBytes(written.bytes),
                HumanBytes(report.scope.read_bytes), written.seconds);
  if (columns < steps) {
    console.Print(
        "Its {} columns have {} or {} checkpoints each, and show the greatest value of them.\n",
        columns, steps / columns, (steps + columns - 1) / columns);
  }
}

int RunReport(Console& console, const ReportOptions& given) {
  const auto start = std::chrono::steady_clock::now();
  ReportOptions options = given;
  options.output.input = options.trace.operands[0];
  if (const Status status = CheckOutput(options.output); !status.ok()) return console.Fail(status);
  const auto trace = MakeTrace(console, options.trace);
  if (!trace.ok()) return console.Fail(trace.status());
  if (trace->selection.checkpoints.empty() || trace->selection.tensors.empty()) {
    console.Note(trace->selection.checkpoints.empty()
                     ? "--steps, --last and --every leave no checkpoint"
                     : "--filter and --exclude leave no tensor");
    return kExitNo;
  }
  Report report = CollectReport(*trace);
  report.title = TitleOf(options);
  report.runs = options.trace.operands;
  const auto page = ReportPage(report, options.max_bytes);
  if (!page.ok()) return console.Fail(page.status());
  if (const Status status = WritePage(options.output.output, *page); !status.ok()) {
    return console.Fail(status);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  Tell(console, report, options, {page->size(), seconds.count()});
  return kExitOk;
}

constexpr const char* kFooter =
    "Examples:\n"
    "  dsckpt report run -o run.html\n"
    "  dsckpt report --quick run -o run.html\n"
    "  dsckpt report run --filter '*.mlp.*' --every 10 -o mlp.html --title 'Only the MLP'\n"
    "\n"
    "The page is one file, which needs no network: findings with the commands that show\n"
    "them, steps and numbers of the job, heat maps of layers and steps, curves of the\n"
    "picked tensor, what is equal to what, and sizes. It works in light and dark and on\n"
    "paper; its help (the key ?) says what the keys do.\n"
    "All tensors are read, each byte once; --quick reads indexes only, which tell what\n"
    "changed, and NaN and norms of files that were saved with statistics. --cache keeps\n"
    "what was measured: with a step more, only that one is read. --combine takes the\n"
    "caches of parts (dsckpt trace --part).\n"
    "Above 400 checkpoints, and where --max-bytes asks for it, a column stands for several:\n"
    "it shows the greatest value of them, so that no spike and no NaN is lost. Numbers in\n"
    "the page are rounded to 1/65,533 of the range of their row; dsckpt trace has them\n"
    "exactly. --steps 0,512,1000: are steps and ranges FROM:BEFORE:STRIDE; then --last,\n"
    "then --every. --step-from attr:KEY, meta:KEY or name:REGEX says where steps stand.\n"
    "--json, schema dsckpt.report/1: output, bytes, checkpoints, columns, tensors,\n"
    "findings, skipped, read_bytes and seconds.\n"
    "Exit code: 0 done; 1 nothing was selected; 2 could not do it.";

}  // namespace

Command AddReport(Program& program) {
  auto options = std::make_shared<ReportOptions>();
  CommandLine line = program.AddCommand("report", "Write a page that shows a run");
  line.Add("PATH", options->trace.operands, "Runs, or checkpoints one by one")
      .Required()
      .Placeholder("...");
  AddOutput(line, options->output, "The HTML file to write (required)");
  line.Add("--title", options->title, "The heading of the page").Placeholder("TEXT");
  line.Add("--max-bytes", options->max_bytes, "The size of the page (default 5MB)")
      .Size()
      .Placeholder("SIZE");
  AddNameFilter(line, options->trace.names, "Only tensors whose names match; repeatable",
                "Not those whose names match; repeatable");
  AddStepOptions(line, options->trace.steps);
  AddReadingOptions(line, options->trace.reading, false);
  line.Footer(kFooter);
  return {line, [options](Console& console) { return RunReport(console, *options); }};
}

}  // namespace dsckpt::tools
