#include "tools/value.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <iterator>
#include <span>
#include <variant>
#include <vector>

#include "merge/number_text.h"
#include "tools/terminal/format.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

constexpr size_t kShownBytes = 16;

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

void WriteWrapped(JsonWriter& json, const char* key, std::string_view text) {
  json.BeginObject();
  json.Key(key).String(text);
  json.End();
}

void WriteDouble(JsonWriter& json, double number) {
  if (std::isfinite(number)) {
    json.Double(number);
  } else {
    WriteWrapped(json, "$float", merge::DoubleText(number));
  }
}

void WriteComplex(JsonWriter& json, const std::complex<double>& number) {
  json.BeginObject();
  json.Key("$complex").BeginArray();
  WriteDouble(json, number.real());
  WriteDouble(json, number.imag());
  json.End();
  json.End();
}

bool PlainKeys(const Node& dict) {
  return std::all_of(dict.begin(), dict.end(), [](const Node& child) {
    const Key key = child.key();
    return key.kind() == Key::Kind::kString && !key.text().starts_with('$');
  });
}

void WriteList(JsonWriter& json, const Node& list) {
  json.BeginArray();
  for (const Node& child : list) WriteNodeJson(json, child);
  json.End();
}

void WriteDict(JsonWriter& json, const Node& dict) {
  if (PlainKeys(dict)) {
    json.BeginObject();
    for (const Node& child : dict) {
      const Key key = child.key();
      json.Key(key.text());
      WriteNodeJson(json, child);
    }
    json.End();
    return;
  }
  json.BeginObject();
  json.Key("$dict").BeginArray();
  for (const Node& child : dict) {
    const Key key = child.key();
    json.BeginArray();
    key.kind() == Key::Kind::kInt ? json.Int(key.integer()) : json.String(key.text());
    WriteNodeJson(json, child);
    json.End();
  }
  json.End();
  json.End();
}

void WriteUntagged(JsonWriter& json, const Node& node) {
  switch (node.kind()) {
    case NodeKind::kDict:
      return WriteDict(json, node);
    case NodeKind::kList:
      return WriteList(json, node);
    case NodeKind::kTuple:
      json.BeginObject();
      json.Key("$tuple");
      WriteList(json, node);
      return json.End();
    case NodeKind::kTensor:
      return WriteWrapped(json, "$tensor", node.item_name());
    case NodeKind::kAlias:
      return WriteWrapped(json, "$alias", node.item_name());
    case NodeKind::kObject:
      return WriteWrapped(json, "$object", node.item_name());
    default:
      return WriteValueJson(json, node.value());
  }
}

std::string BytesText(std::span<const std::byte> bytes) {
  std::string text = Format("{}", Count(bytes.size(), "byte"));
  for (size_t i = 0; i < std::min(bytes.size(), kShownBytes); ++i) {
    FormatTo(text, "{}{:02x}", i == 0 ? ": " : " ", std::to_integer<unsigned>(bytes[i]));
  }
  return text + (bytes.size() > kShownBytes ? " ..." : "");
}

}  // namespace

void WriteValueJson(JsonWriter& json, const Value& value) {
  std::visit(Overloaded{
                 [&](std::monostate) { json.Null(); },
                 [&](bool v) { json.Bool(v); },
                 [&](int64_t v) { json.Int(v); },
                 [&](const BigInt& v) { WriteWrapped(json, "$bigint", merge::BigIntText(v)); },
                 [&](double v) { WriteDouble(json, v); },
                 [&](const std::complex<double>& v) { WriteComplex(json, v); },
                 [&](const std::string& v) { json.String(v); },
                 [&](const std::vector<std::byte>& v) { WriteWrapped(json, "$bytes", Base64(v)); },
             },
             value);
}

void WriteNodeJson(JsonWriter& json, const Node& node) {
  if (node.tag().empty()) return WriteUntagged(json, node);
  json.BeginObject();
  json.Key("$tag").String(node.tag());
  json.Key("value");
  WriteUntagged(json, node);
  json.End();
}

void WriteFlatTreeJson(JsonWriter& json, const File& file) {
  json.BeginObject();
  for (uint32_t i = 0; i < file.tensor_count(); ++i) {
    const std::string_view name = file.tensor(i).name;
    WriteWrapped(json.Key(name), "$tensor", name);
  }
  for (uint32_t i = 0; i < file.alias_count(); ++i) {
    const std::string_view name = file.alias(i).name;
    WriteWrapped(json.Key(name), "$alias", name);
  }
  for (uint32_t i = 0; i < file.object_count(); ++i) {
    const std::string_view name = file.object(i).name;
    WriteWrapped(json.Key(name), "$object", name);
  }
  json.End();
}

std::string ValueText(const Value& value) {
  return std::visit(Overloaded{
                        [](std::monostate) -> std::string { return "null"; },
                        [](bool v) -> std::string { return v ? "true" : "false"; },
                        [](int64_t v) { return Format("{}", v); },
                        [](const BigInt& v) { return merge::BigIntText(v); },
                        [](double v) { return merge::DoubleText(v); },
                        [](const std::complex<double>& v) {
                          return Format("({}, {})", merge::DoubleText(v.real()),
                                        merge::DoubleText(v.imag()));
                        },
                        [](const std::string& v) { return Format("\"{}\"", TerminalName(v)); },
                        [](const std::vector<std::byte>& v) { return BytesText(v); },
                    },
                    value);
}

}  // namespace dsckpt::tools
