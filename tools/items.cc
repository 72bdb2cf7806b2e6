#include "tools/items.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tools/terminal/console.h"
#include "tools/terminal/format.h"
#include "tools/terminal/json.h"
#include "tools/terminal/table.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

std::string_view NameOf(const File& file, TensorRow row) {
  return row.alias ? file.alias(row.index).name : file.tensor(row.index).name;
}

// Both lists are in name order already.
std::vector<TensorRow> ByName(const File& file) {
  std::vector<TensorRow> tensors(file.tensor_count()), aliases(file.alias_count());
  for (uint32_t i = 0; i < file.tensor_count(); ++i) tensors[i] = {i, false};
  for (uint32_t i = 0; i < file.alias_count(); ++i) aliases[i] = {i, true};
  if (aliases.empty()) return tensors;
  std::vector<TensorRow> rows(tensors.size() + aliases.size());
  std::merge(tensors.begin(), tensors.end(), aliases.begin(), aliases.end(), rows.begin(),
             [&](TensorRow a, TensorRow b) { return NameOf(file, a) < NameOf(file, b); });
  return rows;
}

std::string NumberedIfUnknown(std::string_view name, unsigned number) {
  return name == "unknown" ? Format("unknown({})", number) : std::string(name);
}

uint64_t ValuesBelow(const Node& node) {
  uint64_t values = 0;
  for (const Node& child : node) {
    const NodeKind kind = child.kind();
    if (child.is_container()) {
      values += ValuesBelow(child);
    } else {
      values += kind != NodeKind::kTensor && kind != NodeKind::kAlias && kind != NodeKind::kObject;
    }
  }
  return values;
}

}  // namespace

TensorEntry Resolve(const File& file, TensorRow row) {
  if (!row.alias) {
    const TensorInfo info = file.tensor(row.index);
    return {info.name, info, std::nullopt};
  }
  const AliasInfo alias = file.alias(row.index);
  const TensorInfo target = file.tensor(alias.target);
  return {alias.name, target, target.name};
}

uint64_t TotalTensorBytes(const File& file) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < file.tensor_count(); ++i) bytes += file.tensor(i).raw_bytes;
  return bytes;
}

uint64_t PlainValues(const File& file) {
  const std::optional<Node> tree = file.tree();
  return tree ? ValuesBelow(*tree) : 0;
}

void Totals::Add(const DTypeInfo& dtype, std::span<const int64_t> shape, uint64_t bytes,
                 uint64_t stored_bytes) {
  DTypeTotal& total = by_dtype_[DTypeText(dtype)];
  ++total.tensors;
  total.elements += ElementCount(shape).ok() ? ElementCount(shape).value() : 0;
  total.bytes += bytes;
  total.stored_bytes += stored_bytes;
}

DTypeTotal Totals::all() const {
  DTypeTotal all;
  for (const auto& [name, total] : by_dtype_) {
    all.tensors += total.tensors;
    all.elements += total.elements;
    all.bytes += total.bytes;
    all.stored_bytes += total.stored_bytes;
  }
  return all;
}

void Totals::WriteJson(JsonWriter& json) const {
  const auto members = [&](const DTypeTotal& total) {
    json.Key("tensors").Uint(total.tensors);
    json.Key("parameters").Uint(total.elements);
    json.Key("bytes").Uint(total.bytes);
    json.Key("stored_bytes").Uint(total.stored_bytes);
  };
  json.Key("totals").BeginObject();
  members(all());
  json.Key("by_dtype").BeginObject();
  for (const auto& [name, total] : by_dtype_) {
    json.Key(name).BeginObject();
    members(total);
    json.End();
  }
  json.End();
  json.End();
}

void Totals::Print(Console& console) const {
  if (by_dtype_.empty()) return;
  console.Write("\n");
  std::vector<std::pair<std::string, DTypeTotal>> rows(by_dtype_.begin(), by_dtype_.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  using Align = Column::Align;
  const std::vector<Column> columns = {{"DTYPE"},
                                       {"TENSORS", Align::kRight},
                                       {"PARAMETERS", Align::kRight},
                                       {"BYTES", Align::kRight}};
  PrintTable(console, columns, rows.size(), [&](size_t row, std::vector<std::string>& cells) {
    const auto& [name, total] = rows[row];
    cells = {name, Grouped(total.tensors), Grouped(total.elements), HumanBytes(total.bytes)};
  });
}

std::vector<TensorRow> SelectTensors(const File& file, const NameFilter& names, SortBy sort) {
  std::vector<TensorRow> rows = ByName(file);
  if (names.any()) {
    std::erase_if(rows, [&](TensorRow row) { return !names.Takes(NameOf(file, row)); });
  }
  const auto info = [&](TensorRow row) { return Resolve(file, row).info; };
  if (sort == SortBy::kSize) {
    std::stable_sort(rows.begin(), rows.end(), [&](TensorRow a, TensorRow b) {
      return info(a).raw_bytes > info(b).raw_bytes;
    });
  } else if (sort == SortBy::kOffset) {
    std::stable_sort(rows.begin(), rows.end(),
                     [&](TensorRow a, TensorRow b) { return info(a).offset < info(b).offset; });
  }
  return rows;
}

std::vector<uint32_t> SelectObjects(const File& file, const NameFilter& names) {
  std::vector<uint32_t> rows;
  for (uint32_t i = 0; i < file.object_count(); ++i) {
    if (names.Takes(file.object(i).name)) rows.push_back(i);
  }
  return rows;
}

Totals TotalsOf(const File& file, const std::vector<TensorRow>& rows) {
  Totals totals;
  for (const TensorRow row : rows) {
    if (row.alias) continue;
    const TensorInfo info = file.tensor(row.index);
    totals.Add(info.dtype, info.shape, info.raw_bytes, info.stored_bytes);
  }
  return totals;
}

std::string HexDigest(const Hash128& digest) {
  return Format("{:016x}{:016x}", digest.high, digest.low);
}

std::string DTypeText(const DTypeInfo& dtype) {
  return NumberedIfUnknown(dtype.name, static_cast<unsigned>(dtype.code));
}

std::string EncodingText(Encoding encoding) {
  return NumberedIfUnknown(EncodingName(encoding), static_cast<unsigned>(encoding));
}

std::string ShapeText(std::span<const int64_t> shape) {
  std::string text;
  for (const int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

std::string StoredText(Encoding encoding, uint64_t raw_bytes, uint64_t stored_bytes) {
  if (encoding == Encoding::kRaw) return {};
  if (raw_bytes == 0) return EncodingText(encoding);
  const double percent = 100 * static_cast<double>(stored_bytes) / static_cast<double>(raw_bytes);
  return Format("{} {:.{}f}%", EncodingText(encoding), percent, percent < 9.95 ? 1 : 0);
}

}  // namespace dsckpt::tools
