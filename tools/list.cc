// dsckpt ls: the checkpoints of a run.

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/file.h"
#include "dsckpt/run_layout.h"
#include "merge/inputs.h"
#include "merge/paths.h"
#include "merge/run_members.h"
#include "tools/commands.h"
#include "tools/inspect/inspect.h"
#include "tools/items.h"
#include "tools/operand.h"
#include "tools/terminal/format.h"
#include "tools/terminal/json.h"
#include "tools/terminal/table.h"
#include "tools/terminal/text.h"
#include "tools/value.h"

namespace dsckpt::tools {
namespace {

/// A run as dsckpt's own saves make it, and what other programs have put there.
struct Listing {
  RunDirectory run;
  std::vector<RunEntry> checkpoints;
  std::vector<std::pair<std::string, std::string>> ignored;
};

std::optional<RunEntry> EntryOf(const merge::RunMember& member) {
  const auto inputs = merge::OpenOperand(member.operand, merge::kAtOnce);
  if (!inputs.ok() || !merge::CheckStands(inputs->checkpoint).ok()) return std::nullopt;
  const merge::MemberStep step = merge::StepOf(inputs->checkpoint, member.operand);
  RunEntry entry;
  entry.name = member.name;
  entry.step = step.step;
  entry.step_source = step.source;
  entry.shards = inputs->checkpoint.shard_count();
  for (uint32_t i = 0; i < entry.shards; ++i) entry.bytes += inputs->checkpoint.shard(i).file_bytes;
  return entry;
}

/// Those of other programs have no place in the order of saves: steps tell it.
void AddForeign(Listing& listing) {
  if (listing.ignored.empty()) return;
  const auto members = merge::ListMembers(listing.run.path());
  if (!members.ok()) return;
  const size_t own = listing.checkpoints.size();
  for (const merge::RunMember& member : members->members) {
    const auto ignored = std::ranges::find(listing.ignored, member.name,
                                           &std::pair<std::string, std::string>::first);
    if (ignored == listing.ignored.end()) continue;
    auto entry = EntryOf(member);
    if (!entry) continue;
    listing.ignored.erase(ignored);
    listing.checkpoints.push_back(*std::move(entry));
  }
  if (listing.checkpoints.size() == own) return;
  std::ranges::stable_sort(listing.checkpoints, {}, [](const RunEntry& entry) {
    return std::pair(!entry.step, entry.step.value_or(0));
  });
}

Result<Listing> OpenListing(const std::string& path) {
  DSCKPT_ASSIGN_OR_RETURN(RunDirectory run, RunDirectory::Open(path));
  Listing listing{std::move(run), {}, {}};
  const std::span<const RunEntry> own = listing.run.checkpoints();
  listing.checkpoints.assign(own.begin(), own.end());
  const auto& ignored = listing.run.ignored_entries();
  listing.ignored.assign(ignored.begin(), ignored.end());
  AddForeign(listing);
  return listing;
}

/// An attribute, or a value at the root of the state tree. Nothing: the checkpoint has neither.
std::optional<Value> Find(const File& file, const std::string& name) {
  if (const auto attribute = file.Attribute(name); attribute.ok()) return *attribute;
  const std::optional<Node> tree = file.tree();
  if (!tree || tree->kind() != NodeKind::kDict) return std::nullopt;
  const std::optional<Node> node = tree->Find(Key(name));
  switch (node ? node->kind() : NodeKind::kDict) {
    case NodeKind::kDict:
    case NodeKind::kList:
    case NodeKind::kTuple:
    case NodeKind::kTensor:
    case NodeKind::kAlias:
    case NodeKind::kObject:
      return std::nullopt;
    default:
      return node->value();
  }
}

/// What `--attr` asks for of one checkpoint: rank 0's, in the order of the options.
std::vector<std::optional<Value>> Attributes(const RunDirectory& run, const RunEntry& entry,
                                             const ListOptions& options) {
  std::vector<std::optional<Value>> values(options.attributes.size());
  if (values.empty()) return values;
  const auto checkpoint = Checkpoint::Open(run.path() + "/" + entry.name, merge::kAtOnce);
  if (!checkpoint.ok() || checkpoint->shard_count() == 0) return values;
  const auto first = checkpoint->OpenShard(0);
  if (!first.ok()) return values;
  for (size_t i = 0; i < values.size(); ++i) values[i] = Find(*first, options.attributes[i]);
  return values;
}

/// As dsckpt hash --tree says, from the indexes alone. Nothing where a tensor has no digest there.
std::optional<Hash128> DigestOf(const RunDirectory& run, const RunEntry& entry) {
  const auto checkpoint = Checkpoint::Open(run.path() + "/" + entry.name, merge::kAtOnce);
  if (!checkpoint.ok()) return std::nullopt;
  std::vector<NamedDigest> digests;
  for (uint32_t i = 0; i < checkpoint->tensor_count(); ++i) {
    const auto digest = checkpoint->Digest(i);
    if (!digest.ok() || !*digest) return std::nullopt;
    digests.push_back({std::string(checkpoint->tensor(i).name), **digest});
  }
  return TreeDigest(std::move(digests));
}

/// UTC, to the second: that of the file whose appearance completes a checkpoint.
std::optional<std::string> TimeOf(const RunDirectory& run, const RunEntry& entry) {
  const std::filesystem::path path = run.path() + "/" + entry.name;
  std::error_code error;
  const std::filesystem::path manifest = path / std::string(kManifestName);
  const bool directory = std::filesystem::exists(manifest, error);
  const auto written = std::filesystem::last_write_time(directory ? manifest : path, error);
  if (error) return std::nullopt;
  const auto since = std::chrono::file_clock::to_sys(written).time_since_epoch();
  const std::time_t seconds = std::chrono::floor<std::chrono::seconds>(since).count();
  std::tm parts{};
  char text[32];
  if (gmtime_r(&seconds, &parts) == nullptr) return std::nullopt;
  return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts));
}

void EntryJson(JsonWriter& json, const RunDirectory& run, const RunEntry& entry,
               const ListOptions& options) {
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
  if (options.digest) {
    const auto digest = DigestOf(run, entry);
    json.Key("tree_digest");
    digest ? json.String(HexDigest(*digest)) : json.Null();
  }
  if (options.time) {
    const auto time = TimeOf(run, entry);
    json.Key("time");
    time ? json.String(*time) : json.Null();
  }
  if (!options.attributes.empty()) {
    const auto values = Attributes(run, entry, options);
    json.Key("attributes").BeginObject();
    for (size_t i = 0; i < values.size(); ++i) {
      json.Key(options.attributes[i]);
      values[i] ? WriteValueJson(json, *values[i]) : json.Null();
    }
    json.End();
  }
  json.End();
}

/// The newest ones.
std::span<const RunEntry> Shown(Console& console, const Listing& listing,
                                const ListOptions& options) {
  const bool terminal = console.out_is_terminal() && !console.json();
  const uint64_t limit = options.limit.value_or(terminal ? kTerminalRows : 0);
  const std::span<const RunEntry> all = listing.checkpoints;
  return limit == 0 || limit >= all.size() ? all : all.last(limit);
}

void ListJson(Console& console, const Listing& listing, const ListOptions& options) {
  const RunDirectory& run = listing.run;
  JsonWriter json(console);
  json.BeginObject(JsonWriter::Layout::kLines);
  json.Key("schema").String("dsckpt.run/1");
  json.Key("path").String(run.path());
  json.Key("latest");
  run.latest_name() ? json.String(*run.latest_name()) : json.Null();
  json.Key("checkpoints").BeginArray(JsonWriter::Layout::kLines);
  for (const RunEntry& entry : Shown(console, listing, options))
    EntryJson(json, run, entry, options);
  json.End();
  json.Key("ignored_entries").BeginArray(JsonWriter::Layout::kLines);
  for (const auto& [name, why] : listing.ignored) {
    json.BeginObject();
    json.Key("name").String(name);
    json.Key("why").Sentence(why);
    json.End();
  }
  json.End();
  json.End();
}

std::vector<std::string> RowOf(const RunDirectory& run, const RunEntry& entry,
                               const ListOptions& options) {
  std::vector<std::string> cells = {entry.step ? std::to_string(*entry.step) : "unknown",
                                    TerminalName(entry.name), Grouped(entry.shards),
                                    HumanBytes(entry.bytes)};
  if (options.time) cells.push_back(TimeOf(run, entry).value_or("-"));
  if (options.digest) {
    const auto digest = DigestOf(run, entry);
    cells.push_back(digest ? HexDigest(*digest).substr(0, 12) : "-");
  }
  for (const auto& value : Attributes(run, entry, options)) {
    cells.push_back(value ? ValueText(*value) : "-");
  }
  cells.push_back(entry.name == run.latest_name() ? "latest" : entry.abandoned ? "abandoned" : "");
  return cells;
}

void PrintCheckpoints(Console& console, const Listing& listing, const ListOptions& options) {
  using Align = Column::Align;
  const auto shown = Shown(console, listing, options);
  if (shown.empty()) return;
  std::vector<std::string> headings;
  for (const std::string& name : options.attributes) headings.push_back(TerminalName(name));
  std::vector<Column> columns = {{"STEP", Align::kRight},
                                 {"CHECKPOINT", Align::kLeft, true},
                                 {"SHARDS", Align::kRight},
                                 {"SIZE", Align::kRight}};
  if (options.time) columns.push_back({"TIME"});
  if (options.digest) columns.push_back({"DIGEST"});
  for (const std::string& heading : headings) columns.push_back({heading.c_str(), Align::kRight});
  columns.push_back({"STATE"});
  // A table asks for its rows several times.
  std::vector<std::vector<std::string>> rows;
  for (const RunEntry& entry : shown) rows.push_back(RowOf(listing.run, entry, options));
  PrintTable(console, columns, shown.size(),
             [&](size_t row, std::vector<std::string>& cells) { cells = rows[row]; });
  if (const size_t earlier = listing.checkpoints.size() - shown.size(); earlier != 0) {
    console.Print("{}\n", console.Styled(Style::kDim, Format("... {} earlier (--limit 0 lists all)",
                                                             Grouped(earlier))));
  }
}

void ListText(Console& console, const Listing& listing, const ListOptions& options) {
  PrintCheckpoints(console, listing, options);
  const auto& ignored = listing.ignored;
  const uint64_t limit = options.limit.value_or(console.out_is_terminal() ? kTerminalRows : 0);
  const size_t shown = limit == 0 ? ignored.size() : std::min<size_t>(limit, ignored.size());
  for (size_t i = 0; i < shown; ++i) {
    console.Print("{}: not counted: {}\n", TerminalName(ignored[i].first),
                  SafeText(ignored[i].second));
  }
  PrintMore(console, ignored.size() - shown);
}

bool LatestStands(const Listing& listing) {
  return std::ranges::any_of(listing.checkpoints, [&](const RunEntry& entry) {
    return entry.name == listing.run.latest_name();
  });
}

}  // namespace

int ListRun(Console& console, const std::string& path, const ListOptions& options) {
  const auto listing = OpenListing(path);
  if (!listing.ok()) return console.Fail(listing.status());
  const RunDirectory& run = listing->run;
  if (console.json()) {
    ListJson(console, *listing, options);
  } else {
    ListText(console, *listing, options);
  }
  if (run.latest_name() && !LatestStands(*listing)) {
    console.Note(Format("'latest' names {}, which is no complete checkpoint here",
                        TerminalName(*run.latest_name())));
  }
  if (!listing->checkpoints.empty()) return kExitOk;
  if (const auto aside = run.Latest(merge::kAtOnce); aside.ok()) {
    console.Note(
        Format("{} stands for it until the next save mends this: a replacement was stopped",
               TerminalName(aside->path())));
    return kExitOk;
  }
  console.Note(path + ": no complete checkpoint");
  return kExitNo;
}

namespace {

struct ListCommand {
  std::vector<std::string> paths;
  ListOptions options;
};

int ListPath(Console& console, const std::string& path, const ListOptions& options) {
  const auto operand = ToOperand(path);
  if (!operand.ok()) return console.Fail(operand.status());
  if (operand->kind == OperandKind::kRun || !merge::IsDirectory(path)) {
    return ListRun(console, path, options);
  }
  return console.Fail(Status(StatusCode::kInvalidArgument,
                             path + " is no run, but one checkpoint or model: dsckpt inspect "
                                    "shows what it holds")
                          .WithPath(path));
}

int ListAll(Console& console, const ListCommand& command) {
  const bool several = command.paths.size() > 1;
  if (several) console.OneLineDocuments();
  int code = kExitOk;
  for (const std::string& path : command.paths) {
    if (several && !console.json()) {
      console.Print("{}{}:\n", &path == &command.paths.front() ? "" : "\n",
                    console.Styled(Style::kBold, SafeText(path)));
    }
    code = std::max(code, ListPath(console, path, command.options));
  }
  return code;
}

}  // namespace

Command AddList(Program& program) {
  auto command = std::make_shared<ListCommand>();
  CommandLine line = program.AddCommand("ls", "List the checkpoints of a run");
  line.Add("RUN", command->paths, "Directories of runs").Required().Placeholder("...");
  line.Add("--attr", command->options.attributes,
           "Also this attribute, or this value of the state; repeatable")
      .Repeatable()
      .Placeholder("NAME");
  line.AddFlag("--digest", command->options.digest,
               "Also one digest of all tensors (dsckpt hash --tree), from the indexes");
  line.AddFlag("--time", command->options.time, "Also when each was completed, in UTC");
  line.Add("--limit", command->options.limit, "The newest N; 0: all (on a terminal: 40)")
      .FromZero()
      .Placeholder("N");
  line.Footer(
      "Examples:\n"
      "  dsckpt ls run\n"
      "  dsckpt ls run --attr loss --attr lr\n"
      "  dsckpt ls run --digest --time\n"
      "  dsckpt ls run --json | jq -r '.checkpoints[-1].name'\n"
      "\n"
      "Complete checkpoints in the order in which they were saved, those whose step nobody\n"
      "knows last; among plain safetensors files and models, by steps; then what else lies there "
      "and why it does not count. STATE: the run goes on\n"
      "from 'latest'; 'abandoned': saved before the run was set back to an earlier one.\n"
      "--attr looks among the attributes of the first shard, then at the root of its state\n"
      "tree; '-' or null where there is neither. Equal digests are equal tensors.\n"
      "--json, schema dsckpt.run/1: path; latest, a name or null; checkpoints, each with name,\n"
      "step and step_source (manifest, attribute, metadata or name; null where nobody knows\n"
      "it), serial (which save it was; 0: unknown), parent (the serial of the save that it went\n"
      "on from; 0: of none, or unknown), abandoned, shards and bytes, and with\n"
      "--digest tree_digest, --time time, --attr attributes; ignored_entries, each with name and "
      "why. Several runs give a\n"
      "document a line.\n"
      "Exit code: 0 there are some; 1 there is none; 2 could not look.");
  return {line, [command](Console& console) { return ListAll(console, *command); }};
}

}  // namespace dsckpt::tools
