// dsckpt verify: are the bytes what was saved?

#include "dsckpt/verify.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/commands.h"
#include "tools/terminal/format.h"
#include "tools/terminal/json.h"
#include "tools/terminal/progress.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

// Further problems of a file are counted; --json has them all.
constexpr size_t kShownProblems = 20;

struct Options {
  std::vector<std::string> paths;
  bool decode = false;
  int threads = 0;
};

// Files that cannot be checked matter less than a file known to be bad: kExitNo wins.
int Worse(int a, int b) {
  if (a == kExitNo || b == kExitNo) return kExitNo;
  return std::max(a, b);
}

// What only a newer dsckpt could check is not known to be bad.
bool OnlyUnsupported(const VerifyReport& report) {
  return std::all_of(report.problems.begin(), report.problems.end(),
                     [](const Problem& problem) { return problem.kind == "unsupported"; });
}

int ExitFor(const FileVerification& file) {
  if (!file.status.ok()) return ExitCodeFor(file.status.code());
  if (file.report.ok) return kExitOk;
  return OnlyUnsupported(file.report) ? kExitFailed : kExitNo;
}

double Seconds(const FileVerification& file) {
  return std::chrono::duration<double>(file.duration).count();
}

std::string KindText(const std::string& kind) {
  static const std::map<std::string, std::string> kTexts = {
      {"checksum", "the bytes do not match their checksum"},
      {"header-mismatch", "the JSON header and the index disagree"},
      {"padding", "the padding is not all zero"},
      {"truncated", "the file is cut short"},
      {"trailing-bytes", "bytes follow the end of the file"},
      {"structure", "the structure is broken"},
      {"decode", "the stored bytes do not decode"},
      {"unsupported", "not known to this release"},
  };
  const auto text = kTexts.find(kind);
  return text == kTexts.end() ? SafeText(kind) : text->second;
}

void PrintProblem(Console& console, const Problem& problem) {
  console.Print("  {} at offset {}: {}", console.Styled(Style::kBold, TerminalName(problem.item)),
                problem.offset, KindText(problem.kind));
  if (!problem.expected.empty()) console.Print("; expected {}", SafeText(problem.expected));
  if (!problem.found.empty()) {
    console.Print("{} found {}", problem.expected.empty() ? ";" : ",", SafeText(problem.found));
  }
  console.Write("\n");
}

void PrintFile(Console& console, const FileVerification& file) {
  const std::string name = SafeText(file.path);
  if (!file.status.ok()) {
    (void)console.Fail(file.status);
    return;
  }
  const VerifyReport& report = file.report;
  if (report.ok && !file.has_checksums) {
    console.Print("{}: {}; it has no checksums, so that its tensors were not checked\n", name,
                  console.Styled(Style::kGood, "header ok"));
    return;
  }
  // Nothing is read of a file whose very size is wrong.
  const std::string checked = report.checked_bytes == 0
                                  ? "not read"
                                  : HumanBytes(report.checked_bytes) + " checked in " +
                                        Rate(report.checked_bytes, Seconds(file));
  if (report.ok) {
    console.Print("{}: {}, {}\n", name, console.Styled(Style::kGood, "ok"), checked);
    return;
  }
  const char* verdict = OnlyUnsupported(report) ? "NOT CHECKED" : "BAD";
  console.Print("{}: {}, {}, {}\n", name, console.Styled(Style::kBad, verdict),
                Count(report.problems.size(), "problem"), checked);
  const size_t shown = std::min(report.problems.size(), kShownProblems);
  for (size_t i = 0; i < shown; ++i) PrintProblem(console, report.problems[i]);
  if (shown < report.problems.size()) {
    console.Print("  ... {} more (--json lists all)\n", report.problems.size() - shown);
  }
}

void WriteProblem(JsonWriter& json, const Problem& problem) {
  json.BeginObject();
  json.Key("item").String(problem.item);
  json.Key("kind").String(problem.kind);
  json.Key("offset").Uint(problem.offset);
  json.Key("expected").String(problem.expected);
  json.Key("found").String(problem.found);
  json.End();
}

void WriteFile(JsonWriter& json, const FileVerification& file) {
  json.BeginObject(JsonWriter::Layout::kLines);
  json.Key("path").String(file.path);
  json.Key("ok").Bool(file.status.ok() && file.report.ok);
  json.Key("checksums").Bool(file.has_checksums);
  json.Key("checked_bytes").Uint(file.report.checked_bytes);
  json.Key("problems").BeginArray(JsonWriter::Layout::kLines);
  for (const Problem& problem : file.report.problems) WriteProblem(json, problem);
  json.End();
  if (!file.status.ok()) {
    json.Key("error").BeginObject();
    WriteErrorMembers(json, file.status);
    json.End();
  }
  json.End();
}

/// What all paths of the command line came to.
struct Outcome {
  int exit = kExitOk;
  std::vector<FileVerification> files;
  /// Of checkpoints as wholes: missing shards, gaps, copies that differ.
  std::vector<Status> problems;
};

/// `on_file` is called with each file when it has been read.
Outcome VerifyPaths(Console& console, const Options& options,
                    const std::function<void(const FileVerification&)>& on_file) {
  Outcome outcome;
  std::optional<ProgressBar> bar;
  VerifyCheckpointOptions verify{.decode = options.decode, .threads = options.threads};
  verify.progress = [&](const std::string& path, uint64_t done, uint64_t total) {
    if (!bar) bar.emplace(console, SafeText(path));
    bar->Update(done, total);
  };
  verify.on_file = [&](const FileVerification& file) {
    bar.reset();
    outcome.exit = Worse(outcome.exit, ExitFor(file));
    on_file(file);
  };
  verify.on_problem = [&](const Status& problem) {
    outcome.exit = Worse(outcome.exit, ExitCodeFor(problem.code()));
    console.Note(Sentence(problem));
  };
  for (const std::string& path : options.paths) {
    auto report = VerifyCheckpoint(path, verify);
    if (!report.ok()) {
      verify.on_problem(report.status());
      outcome.problems.push_back(report.status());
      continue;
    }
    std::move(report->files.begin(), report->files.end(), std::back_inserter(outcome.files));
    std::move(report->problems.begin(), report->problems.end(),
              std::back_inserter(outcome.problems));
  }
  return outcome;
}

int RunJson(Console& console, const Options& options) {
  const Outcome outcome = VerifyPaths(console, options, [&](const FileVerification& file) {
    if (!file.status.ok()) console.Note(Sentence(file.status));
  });
  JsonWriter json(console);
  json.BeginObject(JsonWriter::Layout::kLines);
  json.Key("schema").String("dsckpt.verify/1");
  json.Key("ok").Bool(outcome.exit == kExitOk);
  json.Key("files").BeginArray(JsonWriter::Layout::kLines);
  for (const FileVerification& file : outcome.files) WriteFile(json, file);
  json.End();
  if (!outcome.problems.empty()) {
    json.Key("checkpoint_problems").BeginArray(JsonWriter::Layout::kLines);
    for (const Status& problem : outcome.problems) {
      json.BeginObject();
      json.Key("path").String(problem.path());
      WriteErrorMembers(json, problem);
      json.End();
    }
    json.End();
  }
  json.End();
  return outcome.exit;
}

int RunText(Console& console, const Options& options) {
  uint64_t bad = 0, unchecked = 0, headers = 0, bytes = 0;
  double seconds = 0;
  const Outcome outcome = VerifyPaths(console, options, [&](const FileVerification& file) {
    const int exit = ExitFor(file);
    bad += exit == kExitNo;
    unchecked += exit == kExitFailed;
    headers += exit == kExitOk && !file.has_checksums;
    bytes += file.report.checked_bytes;
    seconds += Seconds(file);
    PrintFile(console, file);
    console.Flush();
  });
  const uint64_t files = outcome.files.size();
  if (files > 1) {
    console.Print("{}: {} ok, {}{} bad, {} not checked; {} in {}\n", Count(files, "file"),
                  files - bad - unchecked - headers,
                  headers == 0 ? "" : Format("{} without checksums, ", headers), bad, unchecked,
                  HumanBytes(bytes), Rate(bytes, seconds));
  }
  return outcome.exit;
}

}  // namespace

Command AddVerify(Program& program) {
  auto options = std::make_shared<Options>();
  CommandLine line = program.AddCommand("verify", "Check every byte of files against its checksum");
  line.Add("PATH", options->paths, "Files; checkpoint, run or model directories; .index.json")
      .Required()
      .Placeholder("...");
  line.AddFlag("--decode", options->decode, "Also decode compressed items and check the outcome");
  line.Add("--threads", options->threads, "Threads; 0 (default): one a core, at most 8")
      .Within(0, 1024)
      .Placeholder("N");
  line.Footer(
      "Examples:\n"
      "  dsckpt verify step-1200.dsckpt\n"
      "  dsckpt verify --decode run/*.dsckpt\n"
      "  dsckpt verify run/step-0000001200\n"
      "  dsckpt verify --json step-1200.dsckpt | jq '.files[].problems'\n"
      "\n"
      "Exit code: 0 all files are good; 1 at least one is bad; 2 none is known to be\n"
      "bad, but at least one could not be checked (in JSON it has an \"error\"). A plain\n"
      "safetensors file has no checksums: its header and extents are checked, which the\n"
      "answer says (in JSON \"checksums\"); of an index, that its files are there and hold\n"
      "what it says. Of a checkpoint directory also: shards that are missing or of another save, "
      "gaps, and\n"
      "copies of the same elements that differ.");
  return {line, [options](Console& console) {
            return console.json() ? RunJson(console, *options) : RunText(console, *options);
          }};
}

}  // namespace dsckpt::tools
