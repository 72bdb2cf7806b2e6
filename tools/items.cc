#include "tools/items.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "tools/glob.h"

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
  return name == "unknown" ? fmt::format("unknown({})", number) : std::string(name);
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

std::vector<TensorRow> SelectTensors(const File& file, const std::vector<std::string>& patterns,
                                     SortBy sort) {
  std::vector<TensorRow> rows = ByName(file);
  if (!patterns.empty()) {
    std::erase_if(rows, [&](TensorRow row) { return !MatchesAny(patterns, NameOf(file, row)); });
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

std::vector<uint32_t> SelectObjects(const File& file, const std::vector<std::string>& patterns) {
  std::vector<uint32_t> rows;
  for (uint32_t i = 0; i < file.object_count(); ++i) {
    if (MatchesAny(patterns, file.object(i).name)) rows.push_back(i);
  }
  return rows;
}

std::string DTypeText(const DTypeInfo& dtype) {
  return NumberedIfUnknown(dtype.name, static_cast<unsigned>(dtype.code));
}

std::string EncodingText(Encoding encoding) {
  return NumberedIfUnknown(EncodingName(encoding), static_cast<unsigned>(encoding));
}

std::string ShapeText(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string StoredText(Encoding encoding, uint64_t raw_bytes, uint64_t stored_bytes) {
  if (encoding == Encoding::kRaw) return {};
  if (raw_bytes == 0) return EncodingText(encoding);
  const double percent = 100 * static_cast<double>(stored_bytes) / static_cast<double>(raw_bytes);
  return fmt::format("{} {:.{}f}%", EncodingText(encoding), percent, percent < 9.95 ? 1 : 0);
}

}  // namespace dsckpt::tools
