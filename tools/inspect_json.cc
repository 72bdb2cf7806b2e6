#include <fmt/format.h>

#include "tools/console.h"
#include "tools/inspect.h"
#include "tools/json.h"
#include "tools/value.h"

namespace dsckpt::tools {
namespace {

void WriteDigest(JsonWriter& json, const std::optional<Hash128>& digest) {
  json.Key("digest");
  digest ? json.String(fmt::format("{:016x}{:016x}", digest->high, digest->low)) : json.Null();
}

// Aliases have none: what they hold is the stored tensor's.
void WritePieces(JsonWriter& json, const std::vector<OwnedPiece>& pieces) {
  if (pieces.empty()) return;
  json.Key("pieces").BeginArray();
  for (const OwnedPiece& piece : pieces) WritePieceJson(json, piece);
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
  if (!entry.alias_of) WritePieces(json, file.Pieces(entry.info));
  json.End();
}

void WriteObject(JsonWriter& json, const ObjectInfo& object) {
  json.BeginObject();
  json.Key("name").String(object.name);
  json.Key("media_type").String(object.media_type);
  json.Key("bytes").Uint(object.raw_bytes);
  json.Key("stored_bytes").Uint(object.stored_bytes);
  json.Key("encoding").String(EncodingText(object.encoding));
  json.End();
}

void WriteAttributes(JsonWriter& json, const File& file) {
  json.BeginObject(JsonWriter::Layout::kLines);
  if (const std::optional<Node> attributes = file.attributes()) {
    for (const Node& attribute : *attributes) {
      // The text borrows from the file, not from the key.
      json.Key(attribute.key().text());
      WriteNodeJson(json, attribute);
    }
  }
  json.End();
}

void WriteRankOwn(JsonWriter& json, const File& file) {
  const std::vector<std::string_view> names = file.RankOwnNames();
  if (names.empty()) return;
  json.Key("rank_own").BeginArray();
  for (const std::string_view name : names) json.String(name);
  json.End();
}

}  // namespace

void InspectJson(Console& console, const File& file, const InspectOptions& options) {
  constexpr auto kLines = JsonWriter::Layout::kLines;
  std::vector<TensorRow> tensors = SelectTensors(file, options.filters, options.sort_by());
  std::vector<uint32_t> objects = SelectObjects(file, options.filters);
  const uint64_t limit = options.limit.value_or(0);
  if (limit != 0 && tensors.size() > limit) tensors.resize(limit);
  if (limit != 0 && objects.size() > limit) objects.resize(limit);

  JsonWriter json(console);
  json.BeginObject(kLines);
  json.Key("schema").String("dsckpt.inspect/1");
  json.Key("path").String(options.path);
  json.Key("format_version");
  file.format() == FileFormat::kDsckpt ? json.String(file.format_version()) : json.Null();
  json.Key("file_bytes").Uint(file.file_bytes());
  json.Key("tensors").BeginArray(kLines);
  for (size_t i = 0; i < tensors.size() && console.writable(); ++i) {
    WriteTensor(json, file, tensors[i]);
  }
  json.End();
  json.Key("objects").BeginArray(kLines);
  for (const uint32_t object : objects) WriteObject(json, file.object(object));
  json.End();
  json.Key("attributes");
  WriteAttributes(json, file);
  WriteRankOwn(json, file);
  if (options.tree) {
    json.Key("tree");
    const std::optional<Node> tree = file.tree();
    tree ? WriteNodeJson(json, *tree) : WriteFlatTreeJson(json, file);
  }
  json.End();
}

}  // namespace dsckpt::tools
