#include <fmt/format.h>

#include <algorithm>

#include "tools/console.h"
#include "tools/glob.h"
#include "tools/inspect.h"
#include "tools/json.h"
#include "tools/survey.h"
#include "tools/table.h"
#include "tools/text.h"

namespace dsckpt::tools {

namespace {

constexpr uint64_t kTerminalRows = 40;

std::vector<uint32_t> Select(const Checkpoint& checkpoint, const InspectOptions& options) {
  std::vector<uint32_t> tensors;
  for (uint32_t i = 0; i < checkpoint.tensor_count(); ++i) {
    if (MatchesAny(options.filters, checkpoint.tensor(i).name)) tensors.push_back(i);
  }
  if (options.sort_by() == SortBy::kSize) {
    std::stable_sort(tensors.begin(), tensors.end(), [&](uint32_t a, uint32_t b) {
      return checkpoint.tensor(a).bytes > checkpoint.tensor(b).bytes;
    });
  }
  return tensors;
}

std::string ShardState(const Survey::Shard& shard) {
  if (shard.status.ok()) return "";
  return shard.status.code() == StatusCode::kIncomplete ? "MISSING" : "BAD";
}

void PrintSummary(Console& console, const Checkpoint& checkpoint, const Survey& survey) {
  const std::string verdict = survey.complete ? console.Styled(Style::kGood, "complete")
                                              : console.Styled(Style::kBad, "INCOMPLETE");
  const std::string step = checkpoint.step() == kUnknownStep
                               ? "unknown step"
                               : "step " + std::to_string(checkpoint.step());
  console.Print("{}: checkpoint of {}, {}\n", SafeText(checkpoint.path()), step, verdict);
  console.Print("  {} by {}, {}, {}\n", Count(checkpoint.shard_count(), "shard"),
                Count(checkpoint.ranks(), "rank"), Count(checkpoint.tensor_count(), "tensor"),
                HumanBytes(survey.bytes));
  console.Print("  attempt {}\n", Printable(checkpoint.attempt()));
}

void PrintShards(Console& console, const Survey& survey, uint64_t limit) {
  const size_t rows =
      limit == 0 ? survey.shards.size() : std::min<size_t>(limit, survey.shards.size());
  console.Write("\n");
  PrintTable(console,
             {{"RANK", Column::Align::kRight},
              {"SHARD", Column::Align::kLeft, true},
              {"SIZE", Column::Align::kRight},
              {"PIECES", Column::Align::kRight},
              {"IN PIECES", Column::Align::kRight},
              {"STATE"}},
             rows, [&](size_t row, std::vector<std::string>& cells) {
               const Survey::Shard& shard = survey.shards[row];
               cells = {std::to_string(shard.info.rank),   Printable(shard.info.name),
                        HumanBytes(shard.info.file_bytes), Grouped(shard.pieces),
                        HumanBytes(shard.piece_bytes),     ShardState(shard)};
             });
  PrintMore(console, survey.shards.size() - rows);
}

void PrintTensors(Console& console, const Checkpoint& checkpoint,
                  const std::vector<uint32_t>& tensors, uint64_t limit) {
  const size_t rows = limit == 0 ? tensors.size() : std::min<size_t>(limit, tensors.size());
  console.Write("\n");
  PrintTable(
      console,
      {{"NAME", Column::Align::kLeft, true},
       {"DTYPE"},
       {"SHAPE", Column::Align::kLeft, true},
       {"SIZE", Column::Align::kRight},
       {"PIECES", Column::Align::kRight},
       {"COVERAGE"}},
      rows, [&](size_t row, std::vector<std::string>& cells) {
        const LogicalTensorInfo info = checkpoint.tensor(tensors[row]);
        cells = {
            Printable(info.name),      DTypeText(info.dtype),
            ShapeText(info.shape),     HumanBytes(info.bytes),
            Grouped(info.piece_count), checkpoint.CheckCoverage(tensors[row]).ok() ? "" : "GAP"};
      });
  PrintMore(console, tensors.size() - rows);
}

void PrintProblems(Console& console, const Survey& survey) {
  for (const Survey::Shard& shard : survey.shards) {
    if (!shard.status.ok()) console.Print("\n{}\n", SafeText(Sentence(shard.status)));
  }
  for (const Survey::Gap& gap : survey.gaps) {
    console.Print("\n{}\n", SafeText(gap.status.message()));
  }
  if (survey.strays.empty()) return;
  console.Write("\nNot named by the manifest:");
  for (const std::string& name : survey.strays) console.Print(" {}", Printable(name));
  console.Write("\n");
}

void WriteShard(JsonWriter& json, const Survey::Shard& shard) {
  json.BeginObject();
  json.Key("name").String(shard.info.name);
  json.Key("rank").Uint(shard.info.rank);
  json.Key("file_bytes").Uint(shard.info.file_bytes);
  json.Key("index_xxh3_64").String(fmt::format("{:016x}", shard.info.index_xxh3_64));
  json.Key("pieces").Uint(shard.pieces);
  json.Key("piece_bytes").Uint(shard.piece_bytes);
  json.Key("ok").Bool(shard.status.ok());
  json.Key("problem");
  shard.status.ok() ? json.Null() : json.String(Sentence(shard.status));
  json.End();
}

void WriteTensor(JsonWriter& json, const Checkpoint& checkpoint, uint32_t tensor) {
  const LogicalTensorInfo info = checkpoint.tensor(tensor);
  json.BeginObject();
  json.Key("name").String(info.name);
  json.Key("dtype").String(DTypeText(info.dtype));
  json.Key("shape").BeginArray();
  for (const int64_t dim : info.shape) json.Int(dim);
  json.End();
  json.Key("bytes").Uint(info.bytes);
  json.Key("covered").Bool(checkpoint.CheckCoverage(tensor).ok());
  json.Key("pieces").BeginArray();
  for (const PieceLocation& location : checkpoint.Pieces(tensor)) {
    json.BeginObject();
    json.Key("shard").Uint(location.shard);
    json.Key("tensor").Uint(location.tensor);
    json.Key("piece");
    WritePieceJson(json, location.piece);
    json.End();
  }
  json.End();
  json.End();
}

void WriteJson(Console& console, const Checkpoint& checkpoint, const Survey& survey,
               const std::vector<uint32_t>& tensors) {
  JsonWriter json(console);
  json.BeginObject(JsonWriter::Layout::kLines);
  json.Key("schema").String("dsckpt.checkpoint/1");
  json.Key("path").String(checkpoint.path());
  json.Key("step");
  checkpoint.step() != kUnknownStep ? json.Int(checkpoint.step()) : json.Null();
  json.Key("serial").Uint(checkpoint.serial());
  json.Key("attempt").String(checkpoint.attempt());
  json.Key("ranks").Uint(checkpoint.ranks());
  json.Key("complete").Bool(survey.complete);
  json.Key("bytes").Uint(survey.bytes);
  json.Key("shards").BeginArray(JsonWriter::Layout::kLines);
  for (const Survey::Shard& shard : survey.shards) WriteShard(json, shard);
  json.End();
  json.Key("strays").BeginArray();
  for (const std::string& name : survey.strays) json.String(name);
  json.End();
  json.Key("tensors").BeginArray(JsonWriter::Layout::kLines);
  for (const uint32_t tensor : tensors) WriteTensor(json, checkpoint, tensor);
  json.End();
  json.End();
}

}  // namespace

int InspectCheckpoint(Console& console, const InspectOptions& options) {
  const auto checkpoint = Checkpoint::Open(options.path, kAtOnce);
  if (!checkpoint.ok()) return console.Fail(checkpoint.status());
  const Survey survey = MakeSurvey(*checkpoint);
  const std::vector<uint32_t> tensors = Select(*checkpoint, options);
  const int code = survey.complete ? kExitOk : kExitNo;
  if (console.json()) {
    WriteJson(console, *checkpoint, survey, tensors);
    return code;
  }
  const uint64_t limit =
      options.limit ? *options.limit : (console.out_is_terminal() ? kTerminalRows : 0);
  PrintSummary(console, *checkpoint, survey);
  PrintShards(console, survey, limit);
  PrintTensors(console, *checkpoint, tensors, limit);
  PrintProblems(console, survey);
  return code;
}

}  // namespace dsckpt::tools
