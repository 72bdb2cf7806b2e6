#include "spec/conformance/describe.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "format/checksum.h"

namespace dsckpt::conformance {
namespace {

using Json = nlohmann::ordered_json;

Json HexOf(const std::optional<Hash128>& hash) {
  if (!hash) return nullptr;
  return format::ToHex(*hash);
}

Json NumberOrNull(double value) {
  if (std::isnan(value)) return nullptr;
  if (std::isinf(value)) return {{"$float", value < 0 ? "-inf" : "inf"}};
  return value;
}

Json StatisticsJson(const TensorStatistics& found) {
  return {{"nan", found.nan},
          {"inf", found.inf},
          {"zero", found.zero},
          {"min", NumberOrNull(found.min)},
          {"max", NumberOrNull(found.max)},
          {"sum", NumberOrNull(found.sum)},
          {"sum_squares", NumberOrNull(found.sum_squares)}};
}

std::string HexOfBytes(std::string_view bytes) {
  std::string hex;
  for (const char byte : bytes) AppendHex(hex, static_cast<uint8_t>(byte));
  return hex;
}

std::string EncodingText(Encoding encoding) {
  const std::string name = EncodingName(encoding);
  return name != "unknown" ? name : "unknown(" + std::to_string(static_cast<int>(encoding)) + ")";
}

Json RangeJson(const Range& range) { return Json::array({range.begin, range.end}); }

Json PieceJson(const OwnedPiece& piece) {
  Json json = {{"logical_name", piece.logical_name}, {"logical_shape", piece.logical_shape}};
  if (piece.form == Piece::Form::kFlat) {
    json["flat"] = RangeJson(piece.flat);
  } else {
    json["box"] = Json::array();
    for (const Range& range : piece.box) json["box"].push_back(RangeJson(range));
  }
  json["element_offset"] = piece.element_offset;
  json["replica_group"] = piece.replica_group;
  return json;
}

Json TensorJson(const File& file, const TensorInfo& info, std::string_view name, Json alias_of) {
  return {{"name", name},
          {"dtype", DTypeText(info.dtype.code)},
          {"shape", std::vector<int64_t>(info.shape.begin(), info.shape.end())},
          {"bytes", info.raw_bytes},
          {"stored_bytes", info.stored_bytes},
          {"offset", info.offset},
          {"encoding", EncodingText(info.encoding)},
          {"digest", HexOf(file.Digest(info))},
          {"alias_of", std::move(alias_of)}};
}

Json TensorsJson(const File& file) {
  std::vector<Json> rows;
  for (uint32_t i = 0; i < file.tensor_count(); ++i) {
    const TensorInfo info = file.tensor(i);
    Json row = TensorJson(file, info, info.name, nullptr);
    if (const auto found = file.Statistics(info)) row["statistics"] = StatisticsJson(*found);
    for (const OwnedPiece& piece : file.Pieces(info)) row["pieces"].push_back(PieceJson(piece));
    rows.push_back(std::move(row));
  }
  for (uint32_t i = 0; i < file.alias_count(); ++i) {
    const AliasInfo alias = file.alias(i);
    const TensorInfo target = file.tensor(alias.target);
    rows.push_back(TensorJson(file, target, alias.name, target.name));
  }
  std::sort(rows.begin(), rows.end(), [](const Json& a, const Json& b) {
    return a["name"].get_ref<const std::string&>() < b["name"].get_ref<const std::string&>();
  });
  return rows;
}

Json ObjectsJson(const File& file) {
  Json rows = Json::array();
  for (uint32_t i = 0; i < file.object_count(); ++i) {
    const ObjectInfo info = file.object(i);
    rows.push_back({{"name", info.name},
                    {"media_type", info.media_type},
                    {"bytes", info.raw_bytes},
                    {"stored_bytes", info.stored_bytes},
                    {"offset", info.offset},
                    {"encoding", EncodingText(info.encoding)},
                    {"digest", HexOf(file.Digest(info))}});
  }
  return rows;
}

Json NumberJson(double number) {
  if (std::isfinite(number)) return number;
  return {{"$float", std::isnan(number) ? "nan" : number < 0 ? "-inf" : "inf"}};
}

std::string Base64(const std::vector<std::byte>& bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  unsigned group = 0;
  int bits = 0;
  for (const std::byte byte : bytes) {
    group = group << 8 | std::to_integer<unsigned>(byte);
    for (bits += 8; bits >= 6; bits -= 6) text += kDigits[group >> (bits - 6) & 63];
  }
  if (bits > 0) text += kDigits[group << (6 - bits) & 63];
  while (text.size() % 4 != 0) text += '=';
  return text;
}

// Schoolbook: multiply the digits so far by 256, add the next byte.
std::string Decimal(const BigInt& number) {
  std::string digits = "0";  // lowest first
  for (auto byte = number.magnitude.rbegin(); byte != number.magnitude.rend(); ++byte) {
    unsigned carry = *byte;
    for (char& digit : digits) {
      carry += static_cast<unsigned>(digit - '0') * 256;
      digit = static_cast<char>('0' + carry % 10);
      carry /= 10;
    }
    for (; carry != 0; carry /= 10) digits += static_cast<char>('0' + carry % 10);
  }
  if (number.negative) digits += '-';
  return {digits.rbegin(), digits.rend()};
}

struct ValueJson {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(bool value) const { return value; }
  Json operator()(int64_t value) const { return value; }
  Json operator()(const BigInt& value) const { return {{"$bigint", Decimal(value)}}; }
  Json operator()(double value) const { return NumberJson(value); }
  Json operator()(const std::complex<double>& value) const {
    return {{"$complex", Json::array({NumberJson(value.real()), NumberJson(value.imag())})}};
  }
  Json operator()(const std::string& value) const { return value; }
  Json operator()(const std::vector<std::byte>& value) const { return {{"$bytes", Base64(value)}}; }
};

Json NodeJson(const Node& node);

Json DictJson(const Node& dict) {
  Json plain = Json::object();
  Json pairs = Json::array();
  bool all_plain = true;
  for (const Node& child : dict) {
    const Key key = child.key();
    const bool is_int = key.kind() == Key::Kind::kInt;
    all_plain = all_plain && !is_int && !key.text().starts_with('$');
    Json value = NodeJson(child);
    pairs.push_back(Json::array({is_int ? Json(key.integer()) : Json(key.text()), value}));
    plain.push_back({std::string(key.text()), std::move(value)});
  }
  return all_plain ? plain : Json{{"$dict", std::move(pairs)}};
}

Json ListJson(const Node& list) {
  Json values = Json::array();
  for (const Node& child : list) values.push_back(NodeJson(child));
  return values;
}

Json BareNodeJson(const Node& node) {
  switch (node.kind()) {
    case NodeKind::kDict:
      return DictJson(node);
    case NodeKind::kList:
      return ListJson(node);
    case NodeKind::kTuple:
      return {{"$tuple", ListJson(node)}};
    case NodeKind::kTensor:
      return {{"$tensor", node.item_name()}};
    case NodeKind::kAlias:
      return {{"$alias", node.item_name()}};
    case NodeKind::kObject:
      return {{"$object", node.item_name()}};
    default:
      return std::visit(ValueJson{}, node.value());
  }
}

Json NodeJson(const Node& node) {
  if (node.tag().empty()) return BareNodeJson(node);
  return {{"$tag", node.tag()}, {"value", BareNodeJson(node)}};
}

// Keys of attributes are strings: a plain object holds any.
Json AttributesJson(const std::optional<Node>& attributes) {
  Json json = Json::object();
  if (!attributes) return json;
  for (const Node& attribute : *attributes) {
    const Key key = attribute.key();
    json[std::string(key.text())] = NodeJson(attribute);
  }
  return json;
}

Json FlatTree(const File& file) {
  Json tree = Json::object();
  for (uint32_t i = 0; i < file.tensor_count(); ++i) {
    const std::string name(file.tensor(i).name);
    tree[name] = {{"$tensor", name}};
  }
  for (uint32_t i = 0; i < file.alias_count(); ++i) {
    const std::string name(file.alias(i).name);
    tree[name] = {{"$alias", name}};
  }
  for (uint32_t i = 0; i < file.object_count(); ++i) {
    const std::string name(file.object(i).name);
    tree[name] = {{"$object", name}};
  }
  return tree;
}

}  // namespace

Json Describe(const File& file) {
  const std::optional<Node> tree = file.tree();
  const bool shard = file.format() == FileFormat::kDsckpt;
  Json json = {{"schema", "dsckpt.inspect/1"},
               {"format_version", shard ? Json(file.format_version()) : Json(nullptr)},
               {"file_bytes", file.file_bytes()},
               {"tensors", TensorsJson(file)},
               {"objects", ObjectsJson(file)},
               {"attributes", AttributesJson(file.attributes())}};
  for (const std::string_view name : file.RankOwnNames()) json["rank_own"].push_back(name);
  if (!file.RankOwnNames().empty()) json["rank"] = file.OwnerRank();
  if (const auto content = file.ContentDigest()) json["content"] = HexOf(*content);
  for (const auto& [name, data] : file.Vendor()) {
    json["vendor"][std::string(name)] = {{"bytes", data.size()}, {"hex", HexOfBytes(data)}};
  }
  json["tree"] = tree ? NodeJson(*tree) : FlatTree(file);
  return json;
}

Json Describe(const format::ManifestView& manifest) {
  Json shards = Json::array();
  for (uint32_t i = 0; i < manifest.shard_count(); ++i) {
    shards.push_back({{"name", manifest.shard_names[i]},
                      {"rank", manifest.shard_rank[i]},
                      {"file_bytes", manifest.shard_file_bytes[i]},
                      {"index_bytes", manifest.shard_index_bytes[i]},
                      {"index_xxh3_64", Hex64(manifest.shard_index_xxh3_64[i])}});
  }
  Json tensors = Json::array();
  const format::PieceView& pieces = manifest.pieces;
  for (uint32_t l = 0; l < pieces.logical_names.size(); ++l) {
    const auto shape = pieces.logical_shape(l);
    Json rows = Json::array();
    const auto [first, last] = manifest.PiecesOf(l);
    for (uint32_t i = first; i < last; ++i) {
      const auto piece = pieces.Get(i);
      if (!piece) continue;
      Json row = {{"shard", manifest.shard_names[manifest.piece_shard[i]]},
                  {"tensor", pieces.tensor[i]}};
      row.update(PieceJson(*piece));
      row.erase("logical_name");
      row.erase("logical_shape");
      rows.push_back(std::move(row));
    }
    const DType dtype{manifest.dtypes[manifest.logical_dtype[l]].code};
    tensors.push_back({{"name", pieces.logical_names[l]},
                       {"dtype", FindDType(dtype)->name},
                       {"shape", std::vector<int64_t>(shape.begin(), shape.end())},
                       {"pieces", std::move(rows)}});
  }
  return {{"attempt", manifest.attempt},  {"step", manifest.step},
          {"ranks", manifest.ranks},      {"serial", manifest.serial},
          {"parent", manifest.parent},    {"shards", std::move(shards)},
          {"tensors", std::move(tensors)}};
}

Result<Json> Describe(const Checkpoint& checkpoint) {
  Json tensors = Json::object();
  for (uint32_t i = 0; i < checkpoint.tensor_count(); ++i) {
    const LogicalTensorInfo info = checkpoint.tensor(i);
    std::vector<std::byte> bytes(info.bytes);
    DSCKPT_RETURN_IF_ERROR(checkpoint.ReadBytes(i, 0, bytes, true));
    std::string hex;
    for (const std::byte byte : bytes) AppendHex(hex, std::to_integer<uint8_t>(byte));
    tensors[std::string(info.name)] = hex;
  }
  Json json = {{"step", checkpoint.step()}, {"shards", checkpoint.shard_count()}};
  if (const auto content = checkpoint.ContentDigest()) json["content"] = HexOf(*content);
  json["tensors"] = std::move(tensors);
  return json;
}

}  // namespace dsckpt::conformance
