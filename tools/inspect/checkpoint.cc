// Inspect of a checkpoint directory.

#include <algorithm>
#include <optional>
#include <utility>

#include "merge/checkpoint_health.h"
#include "tools/conflicts.h"
#include "tools/inspect/inspect.h"
#include "tools/inspect/patterns.h"
#include "tools/terminal/console.h"
#include "tools/terminal/format.h"
#include "tools/terminal/json.h"
#include "tools/terminal/table.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {

namespace {

std::vector<uint32_t> Select(const Checkpoint& checkpoint, const InspectOptions& options) {
  std::vector<uint32_t> tensors;
  for (uint32_t i = 0; i < checkpoint.tensor_count(); ++i) {
    if (options.names.Takes(checkpoint.tensor(i).name)) tensors.push_back(i);
  }
  if (options.sort_by() == SortBy::kSize) {
    std::stable_sort(tensors.begin(), tensors.end(), [&](uint32_t a, uint32_t b) {
      return checkpoint.tensor(a).bytes > checkpoint.tensor(b).bytes;
    });
  }
  return tensors;
}

std::string ShardState(const merge::CheckpointHealth::Shard& shard) {
  if (shard.unknown_hash != 0) return Format("hash {}, unknown", shard.unknown_hash);
  if (shard.status.ok()) return "";
  return shard.status.code() == StatusCode::kIncomplete ? "MISSING" : "BAD";
}

Totals TotalsOf(const Checkpoint& checkpoint, const std::vector<uint32_t>& tensors) {
  Totals totals;
  for (const uint32_t i : tensors) {
    const LogicalTensorInfo info = checkpoint.tensor(i);
    totals.Add(info.dtype, info.shape, info.bytes, info.bytes);
  }
  return totals;
}

/// The file whose attributes and metadata stand for all: the first one of rank 0, if it opens.
std::optional<File> FirstFile(const Checkpoint& checkpoint) {
  for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) {
    if (checkpoint.shard(i).rank != 0) continue;
    const auto shard = checkpoint.OpenShard(i);
    return shard.ok() ? std::optional(*shard) : std::nullopt;
  }
  return std::nullopt;
}

std::string StepText(int64_t step) {
  return step == kUnknownStep ? "unknown step" : Format("step {}", step);
}

void PrintSummary(Console& console, const Checkpoint& checkpoint,
                  const merge::CheckpointHealth& health, const InspectOptions& options,
                  const Totals& totals) {
  const std::string verdict = health.complete ? console.Styled(Style::kGood, "complete")
                                              : console.Styled(Style::kBad, "INCOMPLETE");
  const std::string kind = checkpoint.has_manifest()
                               ? "checkpoint of " + StepText(checkpoint.step())
                               : "model in several safetensors files";
  console.Print("{}: {}, {}\n", SafeText(options.path), kind, verdict);
  console.Print(
      "  {}{}, {}{}, {}\n", Count(checkpoint.shard_count(), "shard"),
      checkpoint.has_manifest() ? " by " + Count(checkpoint.ranks(), "rank") : "",
      Count(totals.all().tensors, "tensor"),
      options.names.any() ? Format(" selected of {}", Grouped(checkpoint.tensor_count())) : "",
      HumanBytes(health.bytes));
  console.Print("  {}\n", Count(totals.all().elements, "parameter"));
  if (checkpoint.has_manifest())
    console.Print("  attempt {}\n", TerminalName(checkpoint.attempt()));
  if (checkpoint.manifest_parts() > 0)
    console.Print("  manifest in {}\n", Count(checkpoint.manifest_parts(), "part"));
  if (const auto content = checkpoint.ContentDigest())
    console.Print("  content {}\n", HexDigest(*content));
}

void PrintShards(Console& console, const merge::CheckpointHealth& health, uint64_t limit) {
  const size_t rows =
      limit == 0 ? health.shards.size() : std::min<size_t>(limit, health.shards.size());
  console.Write("\n");
  PrintTable(console,
             {{"RANK", Column::Align::kRight},
              {"SHARD", Column::Align::kLeft, true},
              {"SIZE", Column::Align::kRight},
              {"PIECES", Column::Align::kRight},
              {"IN PIECES", Column::Align::kRight},
              {"STATE"}},
             rows, [&](size_t row, std::vector<std::string>& cells) {
               const merge::CheckpointHealth::Shard& shard = health.shards[row];
               cells = {std::to_string(shard.info.rank),   TerminalName(shard.info.name),
                        HumanBytes(shard.info.file_bytes), Grouped(shard.pieces),
                        HumanBytes(shard.piece_bytes),     ShardState(shard)};
             });
  PrintMore(console, health.shards.size() - rows);
}

void PrintTensors(Console& console, const Checkpoint& checkpoint,
                  const std::vector<uint32_t>& tensors, const InspectOptions& options,
                  uint64_t limit) {
  std::vector<RowGroup> groups;
  if (options.collapses(console, tensors.size())) {
    groups = GroupRows(tensors.size(), options.sort_by() == SortBy::kSize, [&](size_t row) {
      const LogicalTensorInfo info = checkpoint.tensor(tensors[row]);
      const bool covered = checkpoint.CheckCoverage(tensors[row]).ok();
      return RowDescription{info.name,
                            Format("{} {} {} {}", DTypeText(info.dtype), ShapeText(info.shape),
                                   info.piece_count, covered),
                            info.bytes};
    });
  }
  if (tensors.empty()) return;
  const size_t all = groups.empty() ? tensors.size() : groups.size();
  const size_t rows = limit == 0 ? all : std::min<size_t>(limit, all);
  console.Write("\n");
  PrintTable(console,
             {{"NAME", Column::Align::kLeft, true},
              {"COUNT", Column::Align::kRight},
              {"DTYPE"},
              {"SHAPE", Column::Align::kLeft, true},
              {"SIZE", Column::Align::kRight},
              {"PIECES", Column::Align::kRight},
              {"COVERAGE"}},
             rows, [&](size_t row, std::vector<std::string>& cells) {
               const uint32_t tensor = tensors[groups.empty() ? row : groups[row].first];
               const LogicalTensorInfo info = checkpoint.tensor(tensor);
               cells = {TerminalName(info.name),
                        "",
                        DTypeText(info.dtype),
                        ShapeText(info.shape),
                        HumanBytes(info.bytes),
                        Grouped(info.piece_count),
                        checkpoint.CheckCoverage(tensor).ok() ? "" : "GAP"};
               if (groups.empty()) return;
               cells[0] = TerminalName(groups[row].name);
               cells[1] = groups[row].CountText();
               cells[4] = HumanBytes(groups[row].bytes);
             });
  PrintMore(console, all - rows);
}

void PrintProblems(Console& console, const merge::CheckpointHealth& health) {
  for (const merge::CheckpointHealth::Shard& shard : health.shards) {
    if (!shard.status.ok()) console.Print("\n{}\n", SafeText(Sentence(shard.status)));
  }
  for (const merge::CheckpointHealth::Gap& gap : health.gaps) {
    console.Print("\n{}\n", SafeText(gap.status.message()));
  }
  if (health.ignored_entries.empty()) return;
  console.Write("\nNot named by the manifest:");
  for (const std::string& name : health.ignored_entries) console.Print(" {}", TerminalName(name));
  console.Write("\n");
}

/// What shards say of the tensors, gathered shard by shard: each is opened once.
struct Stored {
  std::vector<std::optional<Hash128>> digests;      // by tensor
  std::vector<std::vector<std::string>> encodings;  // by tensor, then piece; "" where unknown
};

Stored LookInto(const Checkpoint& checkpoint, const std::vector<uint32_t>& tensors) {
  struct Place {
    uint32_t shard, tensor;
    size_t piece;
    uint32_t stored;
  };
  Stored found{std::vector<std::optional<Hash128>>(checkpoint.tensor_count()),
               std::vector<std::vector<std::string>>(checkpoint.tensor_count())};
  std::vector<Place> places;
  for (const uint32_t tensor : tensors) {
    const auto pieces = checkpoint.Pieces(tensor);
    found.encodings[tensor].resize(pieces.size());
    for (size_t i = 0; i < pieces.size(); ++i) {
      places.push_back({pieces[i].shard, tensor, i, pieces[i].tensor});
    }
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return a.shard < b.shard; });
  for (const Place& place : places) {
    const auto shard = checkpoint.OpenShard(place.shard);
    if (!shard.ok() || place.stored >= shard->tensor_count()) continue;
    found.encodings[place.tensor][place.piece] = EncodingText(shard->tensor(place.stored).encoding);
    if (place.piece != 0) continue;
    if (const auto digest = checkpoint.Digest(place.tensor); digest.ok()) {
      found.digests[place.tensor] = *digest;
    }
  }
  return found;
}

void WriteShard(JsonWriter& json, const merge::CheckpointHealth::Shard& shard) {
  json.BeginObject();
  json.Key("name").String(shard.info.name);
  json.Key("rank").Uint(shard.info.rank);
  json.Key("file_bytes").Uint(shard.info.file_bytes);
  json.Key("index_xxh3_64");
  // Plain safetensors have none.
  shard.info.index_bytes == 0 ? json.Null()
                              : json.String(Format("{:016x}", shard.info.index_xxh3_64));
  json.Key("pieces").Uint(shard.pieces);
  json.Key("piece_bytes").Uint(shard.piece_bytes);
  if (shard.unknown_hash != 0) json.Key("unknown_hash").Uint(shard.unknown_hash);
  json.Key("ok").Bool(shard.status.ok());
  json.Key("problem");
  shard.status.ok() ? json.Null() : json.Sentence(Sentence(shard.status));
  json.End();
}

void WriteTensor(JsonWriter& json, const Checkpoint& checkpoint, uint32_t tensor,
                 const Stored& stored) {
  const LogicalTensorInfo info = checkpoint.tensor(tensor);
  json.BeginObject();
  json.Key("name").String(info.name);
  json.Key("dtype").String(DTypeText(info.dtype));
  json.Key("shape").BeginArray();
  for (const int64_t dim : info.shape) json.Int(dim);
  json.End();
  json.Key("bytes").Uint(info.bytes);
  json.Key("covered").Bool(checkpoint.CheckCoverage(tensor).ok());
  WriteDigest(json, stored.digests[tensor]);
  json.Key("pieces").BeginArray();
  size_t position = 0;
  for (const PieceLocation& location : checkpoint.Pieces(tensor)) {
    const std::string& encoding = stored.encodings[tensor][position++];
    json.BeginObject();
    json.Key("shard").Uint(location.shard);
    json.Key("tensor").Uint(location.tensor);
    json.Key("encoding");
    encoding.empty() ? json.Null() : json.String(encoding);
    json.Key("piece");
    WritePieceJson(json, location.piece);
    json.End();
  }
  json.End();
  json.End();
}

void WriteObjects(JsonWriter& json, const Checkpoint& checkpoint, const InspectOptions& options) {
  json.Key("objects").BeginArray(JsonWriter::Layout::kLines);
  uint64_t left = options.limit.value_or(0) == 0 ? UINT64_MAX : *options.limit;
  for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) {
    const auto shard = checkpoint.OpenShard(i);
    if (!shard.ok()) continue;
    for (const uint32_t object : SelectObjects(*shard, options.names)) {
      if (left-- == 0) return json.End();
      json.BeginObject();
      json.Key("shard").Uint(i);
      WriteObject(json, *shard, shard->object(object));
      json.End();
    }
  }
  json.End();
}

void WriteJson(Console& console, const Checkpoint& checkpoint,
               const merge::CheckpointHealth& health, const InspectOptions& options,
               const std::vector<uint32_t>& tensors, const Totals& totals,
               const std::optional<merge::Metadata>& metadata) {
  JsonWriter json(console);
  json.BeginObject(JsonWriter::Layout::kLines);
  json.Key("schema").String("dsckpt.checkpoint/1");
  json.Key("path").String(options.path);
  json.Key("format").String(checkpoint.has_manifest() ? "dsckpt" : "safetensors");
  json.Key("step");
  checkpoint.step() != kUnknownStep ? json.Int(checkpoint.step()) : json.Null();
  json.Key("serial").Uint(checkpoint.serial());
  json.Key("parent").Uint(checkpoint.parent());
  json.Key("attempt");
  checkpoint.has_manifest() ? json.String(checkpoint.attempt()) : json.Null();
  json.Key("manifest_parts").Uint(checkpoint.manifest_parts());
  if (const auto content = checkpoint.ContentDigest()) {
    json.Key("content").String(HexDigest(*content));
  }
  json.Key("ranks").Uint(checkpoint.ranks());
  json.Key("complete").Bool(health.complete);
  json.Key("bytes").Uint(health.bytes);
  totals.WriteJson(json);
  json.Key("shards").BeginArray(JsonWriter::Layout::kLines);
  for (const merge::CheckpointHealth::Shard& shard : health.shards) WriteShard(json, shard);
  json.End();
  json.Key("ignored_entries").BeginArray();
  for (const std::string& name : health.ignored_entries) json.String(name);
  json.End();
  json.Key("tensors").BeginArray(JsonWriter::Layout::kLines);
  const Stored stored = LookInto(checkpoint, tensors);
  for (const uint32_t tensor : tensors) WriteTensor(json, checkpoint, tensor, stored);
  json.End();
  WriteObjects(json, checkpoint, options);
  if (metadata) {
    json.Key("attributes").BeginObject();
    json.End();
    json.Key("metadata");
    WriteMembers(json, metadata->members());
    WriteConflicts(json, metadata->conflicts());
  } else {
    const std::optional<File> first = FirstFile(checkpoint);
    WriteAttributes(console, json, first ? &*first : nullptr);
  }
  json.End();
}

}  // namespace

int InspectCheckpoint(Console& console, const Inputs& inputs, const InspectOptions& options) {
  const Checkpoint& checkpoint = inputs.checkpoint;
  std::optional<merge::Metadata> metadata;  // of a model: what its files and its index say together
  if (!checkpoint.has_manifest()) {
    auto merged = merge::MergeMetadata(checkpoint, options.path, inputs.index_members);
    if (!merged.ok()) return console.Fail(merged.status());
    metadata = std::move(merged).value();
  }
  const merge::CheckpointHealth health = merge::HealthOf(checkpoint);
  std::vector<uint32_t> tensors = Select(checkpoint, options);
  const Totals totals = TotalsOf(checkpoint, tensors);
  const bool nothing = tensors.empty() && options.names.any();
  const int code = health.complete && !nothing ? kExitOk : kExitNo;
  if (tensors.empty()) NoteNothingTaken(console, options);
  if (console.json()) {
    const uint64_t limit = options.limit.value_or(0);
    if (limit != 0 && tensors.size() > limit) tensors.resize(limit);
    WriteJson(console, checkpoint, health, options, tensors, totals, metadata);
    return code;
  }
  const uint64_t limit =
      options.limit ? *options.limit : (console.out_is_terminal() ? kTerminalRows : 0);
  PrintSummary(console, checkpoint, health, options, totals);
  totals.Print(console);
  if (metadata) {
    PrintMembers(console, metadata->members());
    NoteConflicts(console, metadata->unreadable(), metadata->conflicts());
  } else if (const std::optional<File> first = FirstFile(checkpoint)) {
    PrintAttributes(console, *first);
    PrintMetadata(console, *first);
  }
  PrintShards(console, health, limit);
  if (options.tree) {
    console.Write("\n");
    NameTree names;
    for (const uint32_t tensor : tensors) {
      const LogicalTensorInfo info = checkpoint.tensor(tensor);
      names.Add(
          info.name,
          Format("{} {}  {}", DTypeText(info.dtype), ShapeText(info.shape), HumanBytes(info.bytes)),
          info.bytes);
    }
    PrintNameTree(console, names, options, limit);
  } else {
    PrintTensors(console, checkpoint, tensors, options, limit);
  }
  PrintProblems(console, health);
  return code;
}

}  // namespace dsckpt::tools
