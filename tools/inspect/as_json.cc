// Inspect as JSON.

#include <cmath>

#include "merge/metadata.h"
#include "tools/inspect/inspect.h"
#include "tools/terminal/console.h"
#include "tools/terminal/json.h"
#include "tools/terminal/text.h"
#include "tools/value.h"

namespace dsckpt::tools {
namespace {

// Aliases have none: what they hold is the stored tensor's.
void WritePieces(JsonWriter& json, const std::vector<OwnedPiece>& pieces) {
  if (pieces.empty()) return;
  json.Key("pieces").BeginArray();
  for (const OwnedPiece& piece : pieces) WritePieceJson(json, piece);
  json.End();
}

void WriteStatistics(JsonWriter& json, const std::optional<TensorStatistics>& statistics) {
  if (!statistics) return;
  json.Key("statistics").BeginObject();
  json.Key("nan").Uint(statistics->nan);
  json.Key("inf").Uint(statistics->inf);
  json.Key("zero").Uint(statistics->zero);
  for (const auto& [name, number] : {std::pair{"min", statistics->min},
                                     {"max", statistics->max},
                                     {"sum", statistics->sum},
                                     {"sum_squares", statistics->sum_squares}}) {
    json.Key(name);
    std::isnan(number) ? json.Null() : WriteValueJson(json, Value(number));
  }
  json.End();
}

void WriteTensor(JsonWriter& json, const File& file, TensorRow row) {
  const TensorEntry entry = Resolve(file, row);
  json.BeginObject();
  json.Key("name").String(entry.name);
  json.Key("dtype").String(DTypeText(entry.info.dtype));
  json.Key("shape").BeginArray();
  for (const int64_t dim : entry.info.shape) json.Int(dim);
  json.End();
  json.Key("bytes").Uint(entry.info.raw_bytes);
  json.Key("stored_bytes").Uint(entry.info.stored_bytes);
  json.Key("offset").Uint(entry.info.offset);
  json.Key("encoding").String(EncodingText(entry.info.encoding));
  WriteDigest(json, file.Digest(entry.info));
  json.Key("alias_of");
  entry.alias_of ? json.String(*entry.alias_of) : json.Null();
  if (!entry.alias_of) {
    WriteStatistics(json, file.Statistics(entry.info));
    WritePieces(json, file.Pieces(entry.info));
  }
  json.End();
}

void WriteRankOwn(JsonWriter& json, const File& file) {
  const std::vector<std::string_view> names = file.RankOwnNames();
  if (names.empty()) return;
  json.Key("rank_own").BeginArray();
  for (const std::string_view name : names) json.String(name);
  json.End();
  json.Key("rank").Uint(file.OwnerRank());
}

// Beyond it only the size of vendor data is shown: as text it takes many times its bytes.
constexpr size_t kShownVendorBytes = 4096;

// What the index says of the shard as a whole; absent where it says nothing.
void WriteAnnotations(JsonWriter& json, const File& file) {
  if (const auto content = file.ContentDigest()) json.Key("content").String(HexDigest(*content));
  const auto vendor = file.Vendor();
  if (vendor.empty()) return;
  json.Key("vendor").BeginObject();
  for (const auto& [name, data] : vendor) {
    json.Key(name).BeginObject();
    json.Key("bytes").Uint(data.size());
    if (data.size() <= kShownVendorBytes) {
      std::string hex;
      for (const char byte : data) hex += Format("{:02x}", static_cast<uint8_t>(byte));
      json.Key("hex").String(hex);
    }
    json.End();
  }
  json.End();
}

}  // namespace

void WriteDigest(JsonWriter& json, const std::optional<Hash128>& digest) {
  json.Key("digest");
  digest ? json.String(HexDigest(*digest)) : json.Null();
}

void WriteObject(JsonWriter& json, const File& file, const ObjectInfo& object) {
  json.Key("name").String(object.name);
  json.Key("media_type").String(object.media_type);
  json.Key("bytes").Uint(object.raw_bytes);
  json.Key("stored_bytes").Uint(object.stored_bytes);
  json.Key("offset").Uint(object.offset);
  json.Key("encoding").String(EncodingText(object.encoding));
  WriteDigest(json, file.Digest(object));
}

void WriteAttributes(Console& console, JsonWriter& json, const File* file) {
  json.Key("attributes");
  if (file == nullptr) {
    json.Null();
    json.Key("metadata").Null();
    return;
  }
  json.BeginObject(JsonWriter::Layout::kLines);
  if (const std::optional<Node> attributes = file->attributes()) {
    for (const Node& attribute : *attributes) {
      // The text borrows from the file, not from the key.
      json.Key(attribute.key().text());
      WriteNodeJson(json, attribute);
    }
  }
  json.End();
  json.Key("metadata");
  const auto metadata = merge::ReadMetadata(*file);
  if (!metadata.ok()) {
    console.Note("the safetensors metadata cannot be read: " + metadata.status().message());
    return json.Null();
  }
  merge::Members members = metadata->members;
  for (const merge::Tie& tie : metadata->ties) members.emplace_back(tie.name, tie.owner);
  WriteMembers(json, members);
}

void WriteMembers(JsonWriter& json, const merge::Members& members) {
  json.BeginObject(JsonWriter::Layout::kLines);
  for (const auto& [key, value] : members) json.Key(key).String(value);
  json.End();
}

void NoteNothingTaken(Console& console, const InspectOptions& options) {
  if (!options.names.any()) return;
  console.Note(options.path +
               ": no name is taken by --filter and --exclude, whose patterns cover "
               "whole names: '*layers.3*' for a part of one");
}

void InspectJson(Console& console, const File& file, const InspectOptions& options) {
  constexpr auto kLines = JsonWriter::Layout::kLines;
  std::vector<TensorRow> tensors = SelectTensors(file, options.names, options.sort_by());
  std::vector<uint32_t> objects = SelectObjects(file, options.names);
  if (tensors.empty() && objects.empty()) NoteNothingTaken(console, options);
  const Totals totals = TotalsOf(file, tensors);
  const uint64_t limit = options.limit.value_or(0);
  if (limit != 0 && tensors.size() > limit) tensors.resize(limit);
  if (limit != 0 && objects.size() > limit) objects.resize(limit);

  JsonWriter json(console);
  json.BeginObject(kLines);
  json.Key("schema").String("dsckpt.inspect/1");
  json.Key("path").String(options.path);
  json.Key("format").String(file.format() == FileFormat::kDsckpt ? "dsckpt" : "safetensors");
  json.Key("format_version");
  file.format() == FileFormat::kDsckpt ? json.String(file.format_version()) : json.Null();
  const bool shard = file.format() == FileFormat::kDsckpt;
  if (shard && !file.verifiable()) json.Key("unknown_hash").Uint(file.hash_id());
  json.Key("file_bytes").Uint(file.file_bytes());
  totals.WriteJson(json);
  json.Key("tensors").BeginArray(kLines);
  for (size_t i = 0; i < tensors.size() && console.writable(); ++i) {
    WriteTensor(json, file, tensors[i]);
  }
  json.End();
  json.Key("objects").BeginArray(kLines);
  for (const uint32_t object : objects) {
    json.BeginObject();
    WriteObject(json, file, file.object(object));
    json.End();
  }
  json.End();
  WriteAttributes(console, json, &file);
  WriteRankOwn(json, file);
  WriteAnnotations(json, file);
  if (options.tree) {
    json.Key("tree");
    const std::optional<Node> tree = file.tree();
    tree ? WriteNodeJson(json, *tree) : WriteFlatTreeJson(json, file);
  }
  json.End();
}

}  // namespace dsckpt::tools
