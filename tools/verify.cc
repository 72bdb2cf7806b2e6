// dsckpt verify: are the bytes what was saved?

#include "dsckpt/verify.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/checkpoint_health.h"
#include "tools/commands.h"
#include "tools/model_index.h"
#include "tools/operand.h"
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

struct Outcome {
  Result<VerifyReport> report;
  double seconds;
  bool has_checksums;
};

Outcome VerifyOne(const Console& console, const std::string& path, const Options& options) {
  ProgressBar bar(console, SafeText(path));
  VerifyOptions verify;
  verify.decode = options.decode;
  verify.threads = options.threads;
  verify.progress = [&bar](uint64_t done, uint64_t total) { bar.Update(done, total); };
  const auto start = std::chrono::steady_clock::now();
  Result<VerifyReport> report = Verify(path, verify);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  // Of a file that cannot be opened, the report says why.
  const auto file = File::Open(path, {.map = false});
  return {std::move(report), seconds.count(), !file.ok() || file->format() == FileFormat::kDsckpt};
}

// Files that cannot be checked matter less than a file known to be bad: kExitNo wins.
int Worse(int a, int b) {
  if (a == kExitNo || b == kExitNo) return kExitNo;
  return std::max(a, b);
}

// Directories become the shards of their checkpoints, after a look at the checkpoints as wholes.
class PathList {
 public:
  /// What is wrong already is reported, and counted by exit_code().
  void Add(Console& console, const std::string& path) {
    const auto operand = ToOperand(path);
    if (!operand.ok()) return Fail(console, operand.status());
    switch (operand->kind) {
      case OperandKind::kFile:
        files_.push_back(operand->path);
        return;
      case OperandKind::kCheckpoint:
        return AddCheckpoint(console, operand->path);
      case OperandKind::kIndex:
        return AddModel(console, operand->path);
      case OperandKind::kRun:
        return AddRun(console, operand->path);
    }
  }
  const std::vector<std::string>& files() const { return files_; }
  const std::vector<Status>& problems() const { return problems_; }
  int exit_code() const { return exit_code_; }

 private:
  void AddRun(Console& console, const std::string& path) {
    const auto run = RunDirectory::Open(path);
    if (!run.ok()) return Fail(console, run.status());
    for (const RunEntry& entry : run->checkpoints()) Add(console, run->path() + "/" + entry.name);
    for (const auto& [name, why] : run->ignored_entries())
      AddStray(console, run->path() + "/" + name);
    if (!run->checkpoints().empty()) return;
    // What a replacement that was stopped put aside is whole, and what others would read.
    if (const auto latest = run->Latest(kAtOnce); latest.ok()) {
      return AddCheckpoint(console, latest->path());
    }
    Fail(console, Status(StatusCode::kIncomplete, "no complete checkpoint").WithPath(path));
  }

  /// Checkpoints do not count for a run when they are bad; here they matter. Foreign files do not,
  /// nor what a commit leaves behind.
  void AddStray(Console& console, const std::string& path) {
    if (RunDirectory::IsLeftOver(path.substr(path.rfind('/') + 1))) return;
    if (IsDirectory(path)) {
      if (IsCheckpointDirectory(path)) AddCheckpoint(console, path);
    } else if (ExitCodeFor(File::Open(path).status().code()) == kExitNo) {
      files_.push_back(path);
    }
  }

  /// The files are there, and hold what the index says.
  void AddModel(Console& console, const std::string& path) {
    const auto model = OpenModelIndex(path);
    if (!model.ok()) return Fail(console, model.status());
    for (uint32_t i = 0; i < model->checkpoint.shard_count(); ++i) {
      files_.push_back(std::string(model->checkpoint.shard(i).name));
    }
  }

  void AddCheckpoint(Console& console, const std::string& path) {
    const auto checkpoint = Checkpoint::Open(path, kAtOnce);
    if (!checkpoint.ok()) return Fail(console, checkpoint.status());
    const CheckpointHealth survey = MakeSurvey(*checkpoint);
    for (const CheckpointHealth::Shard& shard : survey.shards) {
      if (shard.status.ok()) {
        files_.push_back(checkpoint->path() + "/" + std::string(shard.info.name));
      } else {
        Fail(console, shard.status);
      }
    }
    for (const CheckpointHealth::Gap& gap : survey.gaps) Fail(console, gap.status);
    for (uint32_t i = 0; i < checkpoint->tensor_count() && survey.complete; ++i) {
      if (const Status copies = checkpoint->CompareCopies(i); !copies.ok()) Fail(console, copies);
    }
  }

  void Fail(Console& console, const Status& status) {
    console.Note(Sentence(status));
    problems_.push_back(status);
    exit_code_ = Worse(exit_code_, ExitCodeFor(status.code()));
  }

  std::vector<std::string> files_;
  std::vector<Status> problems_;
  int exit_code_ = kExitOk;
};

// What only a newer dsckpt could check is not known to be bad.
bool OnlyUnsupported(const VerifyReport& report) {
  return std::all_of(report.problems.begin(), report.problems.end(),
                     [](const Problem& problem) { return problem.kind == "unsupported"; });
}

int OutcomeExit(const Outcome& outcome) {
  if (!outcome.report.ok()) return ExitCodeFor(outcome.report.status().code());
  if (outcome.report->ok) return kExitOk;
  return OnlyUnsupported(*outcome.report) ? kExitFailed : kExitNo;
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
  console.Print("  {} at offset {}: {}", console.Styled(Style::kBold, Printable(problem.item)),
                problem.offset, KindText(problem.kind));
  if (!problem.expected.empty()) console.Print("; expected {}", SafeText(problem.expected));
  if (!problem.found.empty()) {
    console.Print("{} found {}", problem.expected.empty() ? ";" : ",", SafeText(problem.found));
  }
  console.Write("\n");
}

void PrintOutcome(Console& console, const std::string& path, const Outcome& outcome) {
  const std::string name = SafeText(path);
  if (!outcome.report.ok()) {
    (void)console.Fail(outcome.report.status());
    return;
  }
  const VerifyReport& report = outcome.report.value();
  if (report.ok && !outcome.has_checksums) {
    console.Print("{}: {}; it has no checksums, so that its tensors were not checked\n", name,
                  console.Styled(Style::kGood, "header ok"));
    return;
  }
  // Nothing is read of a file whose very size is wrong.
  const std::string checked = report.checked_bytes == 0
                                  ? "not read"
                                  : HumanBytes(report.checked_bytes) + " checked in " +
                                        Rate(report.checked_bytes, outcome.seconds);
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

void WriteOutcome(JsonWriter& json, const std::string& path, const Outcome& outcome) {
  const bool checked = outcome.report.ok();
  json.BeginObject(JsonWriter::Layout::kLines);
  json.Key("path").String(path);
  json.Key("ok").Bool(checked && outcome.report->ok);
  json.Key("checksums").Bool(outcome.has_checksums);
  json.Key("checked_bytes").Uint(checked ? outcome.report->checked_bytes : 0);
  json.Key("problems").BeginArray(JsonWriter::Layout::kLines);
  if (checked) {
    for (const Problem& problem : outcome.report->problems) WriteProblem(json, problem);
  }
  json.End();
  if (!checked) {
    json.Key("error").BeginObject();
    WriteErrorMembers(json, outcome.report.status());
    json.End();
  }
  json.End();
}

int RunJson(Console& console, const Options& options) {
  std::vector<Outcome> outcomes;
  PathList paths;
  for (const std::string& path : options.paths) paths.Add(console, path);
  int code = paths.exit_code();
  for (const std::string& path : paths.files()) {
    outcomes.push_back(VerifyOne(console, path, options));
    const Outcome& outcome = outcomes.back();
    code = Worse(code, OutcomeExit(outcome));
    if (!outcome.report.ok()) console.Note(Sentence(outcome.report.status()));
  }
  JsonWriter json(console);
  json.BeginObject(JsonWriter::Layout::kLines);
  json.Key("schema").String("dsckpt.verify/1");
  json.Key("ok").Bool(code == kExitOk);
  json.Key("files").BeginArray(JsonWriter::Layout::kLines);
  for (size_t i = 0; i < outcomes.size(); ++i) WriteOutcome(json, paths.files()[i], outcomes[i]);
  json.End();
  if (!paths.problems().empty()) {
    // Of checkpoints as wholes: missing shards, gaps, copies that differ.
    json.Key("checkpoint_problems").BeginArray(JsonWriter::Layout::kLines);
    for (const Status& problem : paths.problems()) {
      json.BeginObject();
      json.Key("path").String(problem.path());
      WriteErrorMembers(json, problem);
      json.End();
    }
    json.End();
  }
  json.End();
  return code;
}

int RunText(Console& console, const Options& options) {
  PathList paths;
  for (const std::string& path : options.paths) paths.Add(console, path);
  int code = paths.exit_code();
  uint64_t bad = 0, unchecked = 0, headers = 0, bytes = 0;
  double seconds = 0;
  for (const std::string& path : paths.files()) {
    const Outcome outcome = VerifyOne(console, path, options);
    const int exit = OutcomeExit(outcome);
    code = Worse(code, exit);
    bad += exit == kExitNo;
    unchecked += exit == kExitFailed;
    headers += exit == kExitOk && !outcome.has_checksums;
    bytes += outcome.report.ok() ? outcome.report->checked_bytes : 0;
    seconds += outcome.seconds;
    PrintOutcome(console, path, outcome);
    console.Flush();
  }
  const uint64_t files = paths.files().size();
  if (files > 1) {
    console.Print("{}: {} ok, {}{} bad, {} not checked; {} in {}\n", Count(files, "file"),
                  files - bad - unchecked - headers,
                  headers == 0 ? "" : Format("{} without checksums, ", headers), bad, unchecked,
                  HumanBytes(bytes), Rate(bytes, seconds));
  }
  return code;
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
