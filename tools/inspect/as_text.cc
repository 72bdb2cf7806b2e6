// Inspect as text.

#include <algorithm>
#include <utility>

#include "merge/metadata.h"
#include "tools/groups.h"
#include "tools/inspect/inspect.h"
#include "tools/inspect/patterns.h"
#include "tools/terminal/console.h"
#include "tools/terminal/format.h"
#include "tools/terminal/table.h"
#include "tools/terminal/text.h"
#include "tools/value.h"

namespace dsckpt::tools {
namespace {

using Align = Column::Align;

void PrintField(Console& console, std::string_view name, std::string_view value) {
  console.Print("  {:<11} {}\n", name, value);
}

// What belongs to the rank that wrote the shard: other ranks have others of these names.
void PrintRankOwn(Console& console, const File& file) {
  constexpr size_t kShown = 8;
  const std::vector<std::string_view> names = file.RankOwnNames();
  if (names.empty()) return;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    text += (i == 0 ? "" : ", ") + TerminalName(names[i]);
  }
  if (names.size() > kShown) text += Format(" and {} more", names.size() - kShown);
  PrintField(console, "rank's own", text);
}

void PrintVendor(Console& console, const File& file) {
  std::string text;
  for (const auto& [name, data] : file.Vendor()) {
    if (!text.empty()) text += ", ";
    text += TerminalName(name) + " (" + HumanBytes(data.size()) + ")";
  }
  if (!text.empty()) PrintField(console, "vendor", text);
}

void PrintSummary(Console& console, const File& file, const InspectOptions& options,
                  const Totals& totals) {
  const bool shard = file.format() == FileFormat::kDsckpt;
  const std::string kind =
      shard ? "dsckpt shard, format " + file.format_version() : "plain safetensors, no checksums";
  console.Print("{}: {}\n", console.Styled(Style::kBold, SafeText(options.path)), SafeText(kind));
  const DTypeTotal all = totals.all();
  if (shard && !file.verifiable()) {
    PrintField(console, "hash",
               Format("id {}, not known to this release: the items cannot be "
                      "verified",
                      file.hash_id()));
  }
  PrintField(console, "size",
             Format("{} ({} bytes)", HumanBytes(file.file_bytes()), Grouped(file.file_bytes())));
  std::string tensors = Format("{}, {}", Grouped(all.tensors), HumanBytes(all.bytes));
  if (all.stored_bytes != all.bytes) {
    tensors += Format(", stored in {}", HumanBytes(all.stored_bytes));
  }
  if (options.names.any()) {
    tensors += Format(" (selected, of {})", Grouped(file.tensor_count()));
  }
  PrintField(console, "tensors", tensors);
  PrintField(console, "parameters", Grouped(all.elements));
  if (file.alias_count() != 0) PrintField(console, "aliases", Grouped(file.alias_count()));
  if (file.object_count() != 0) PrintField(console, "objects", Grouped(file.object_count()));
  PrintRankOwn(console, file);
  if (const auto content = file.ContentDigest()) {
    PrintField(console, "content", HexDigest(*content));
  }
  PrintVendor(console, file);
}

// Names and values that are no items: attributes, safetensors metadata.
void PrintPairs(Console& console, const char* heading,
                const std::vector<std::pair<std::string, std::string>>& pairs) {
  if (pairs.empty()) return;
  console.Write("\n");
  PrintTable(console, {{heading, Align::kLeft, true}, {"VALUE", Align::kLeft, true}}, pairs.size(),
             [&](size_t row, std::vector<std::string>& cells) {
               cells[0] = TerminalName(pairs[row].first);
               cells[1] = pairs[row].second;
             });
}

void PrintTensors(Console& console, const File& file, const InspectOptions& options,
                  uint64_t limit) {
  const std::vector<TensorRow> rows = SelectTensors(file, options.names, options.sort_by());
  if (rows.empty()) return;
  const bool offsets = options.sort_by() == SortBy::kOffset;
  const auto stored = [&](const TensorEntry& entry) {
    const TensorInfo& info = entry.info;
    return entry.alias_of ? "= " + TerminalName(*entry.alias_of)
                          : StoredText(info.encoding, info.raw_bytes, info.stored_bytes);
  };
  std::vector<RowGroup> groups;
  if (options.collapses(console, rows.size())) {
    groups = GroupRows(rows.size(), options.sort_by() == SortBy::kSize, [&](size_t row) {
      const TensorEntry entry = Resolve(file, rows[row]);
      const std::string how =
          entry.alias_of ? NamePattern(*entry.alias_of) : EncodingText(entry.info.encoding);
      return RowDescription{
          entry.name,
          Format("{} {} {}", DTypeText(entry.info.dtype), ShapeText(entry.info.shape), how),
          entry.info.raw_bytes};
    });
  }
  const std::vector<Column> columns = {
      {"TENSOR", Align::kLeft, true},   {"COUNT", Align::kRight}, {"DTYPE"},
      {"SHAPE", Align::kLeft, true},    {"SIZE", Align::kRight},  {"OFFSET", Align::kRight},
      {"STORED AS", Align::kLeft, true}};
  const uint64_t all = groups.empty() ? rows.size() : groups.size();
  const uint64_t shown = limit == 0 ? all : std::min<uint64_t>(limit, all);
  console.Write("\n");
  PrintTable(console, columns, shown, [&](size_t row, std::vector<std::string>& cells) {
    const TensorEntry entry = Resolve(file, rows[groups.empty() ? row : groups[row].first]);
    const TensorInfo& info = entry.info;
    cells[0] = entry.name.empty() ? "\"\"" : TerminalName(entry.name);
    cells[1] = "";
    cells[2] = DTypeText(info.dtype);
    cells[3] = ShapeText(info.shape);
    cells[4] = HumanBytes(info.raw_bytes);
    cells[5] = offsets ? Format("{}", info.offset) : "";
    cells[6] = stored(entry);
    if (groups.empty() || groups[row].count == 1) return;
    cells[0] = TerminalName(groups[row].name);
    cells[1] = groups[row].CountText();
    cells[4] = HumanBytes(groups[row].bytes);
    // Each is compressed to another size, or has another second name.
    if (entry.alias_of) cells[6] = "= " + TerminalName(NamePattern(*entry.alias_of));
    if (!entry.alias_of && !cells[6].empty()) cells[6] = EncodingText(info.encoding);
  });
  PrintMore(console, all - shown);
}

void PrintObjects(Console& console, const File& file, const InspectOptions& options,
                  uint64_t limit) {
  const std::vector<uint32_t> rows = SelectObjects(file, options.names);
  if (rows.empty()) return;
  const uint64_t shown = limit == 0 ? rows.size() : std::min<uint64_t>(limit, rows.size());
  console.Write("\n");
  const std::vector<Column> columns = {{"OBJECT", Align::kLeft, true},
                                       {"MEDIA TYPE", Align::kLeft, true},
                                       {"SIZE", Align::kRight},
                                       {"STORED AS"}};
  PrintTable(console, columns, shown, [&](size_t row, std::vector<std::string>& cells) {
    const ObjectInfo object = file.object(rows[row]);
    cells[0] = TerminalName(object.name);
    cells[1] = TerminalName(object.media_type);
    cells[2] = HumanBytes(object.raw_bytes);
    cells[3] = StoredText(object.encoding, object.raw_bytes, object.stored_bytes);
  });
  PrintMore(console, rows.size() - shown);
}

}  // namespace

void PrintAttributes(Console& console, const File& file) {
  std::vector<std::pair<std::string, std::string>> pairs;
  if (const std::optional<Node> attributes = file.attributes()) {
    for (const Node& attribute : *attributes) {
      pairs.emplace_back(attribute.key().text(), ValueText(attribute.value()));
    }
  }
  PrintPairs(console, "ATTRIBUTE", pairs);
}

void PrintMetadata(Console& console, const File& file) {
  const auto metadata = merge::ReadMetadata(file);
  if (!metadata.ok()) {
    console.Note("the safetensors metadata cannot be read: " + metadata.status().message());
    return;
  }
  merge::Members members = metadata->members;
  for (const merge::Tie& tie : metadata->ties) members.emplace_back(tie.name, "= " + tie.owner);
  PrintMembers(console, members);
}

void PrintMembers(Console& console, const merge::Members& members) {
  merge::Members printable;
  for (const auto& [key, value] : members) {
    printable.emplace_back(key, value.empty() ? "\"\"" : TerminalName(value));
  }
  PrintPairs(console, "METADATA", printable);
}

bool InspectOptions::collapses(const Console& console, size_t rows) const {
  if (collapse || no_collapse) return collapse;
  return console.out_is_terminal() && !limit && rows > kTerminalRows && sort != "offset";
}

void InspectText(Console& console, const File& file, const InspectOptions& options) {
  const uint64_t limit = options.limit.value_or(console.out_is_terminal() ? kTerminalRows : 0);
  const std::vector<TensorRow> rows = SelectTensors(file, options.names, options.sort_by());
  const Totals totals = TotalsOf(file, rows);
  PrintSummary(console, file, options, totals);
  totals.Print(console);
  PrintAttributes(console, file);
  PrintMetadata(console, file);
  if (options.tree) {
    console.Write("\n");
    PrintTree(console, file, options, limit);
    return;
  }
  PrintTensors(console, file, options, limit);
  PrintPieces(console, file, options, limit);
  PrintObjects(console, file, options, limit);
  if (rows.empty() && SelectObjects(file, options.names).empty()) {
    NoteNothingTaken(console, options);
  }
}

}  // namespace dsckpt::tools
