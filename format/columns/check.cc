#include "format/columns/check.h"

#include <algorithm>
#include <string>

#include "dsckpt/limits.h"
#include "format/names.h"

namespace dsckpt::format {
namespace {

// True when no byte needs a closer look: all ASCII, no NUL. Auto-vectorizes, so that a million
// plain names cost one pass over their bytes.
bool PlainAscii(std::span<const char> bytes) {
  unsigned suspicious = 0;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    suspicious |= static_cast<unsigned>(byte == 0) | static_cast<unsigned>(byte >= 0x80);
  }
  return suspicious == 0;
}

Status CheckName(std::string_view part, std::string_view kind, std::string_view name) {
  const Status status = CheckItemName(name);
  if (status.ok()) return {};
  return ColumnError(part, std::string(kind) + " '" + Printable(name) + "'", "name",
                     "a legal item name", status.message());
}

Status CheckEnds(std::string_view part, const NameView& names, const std::string& kind) {
  uint32_t begin = 0;
  for (uint32_t i = 0; i < names.size(); ++i) {
    const uint32_t end = names.ends[i];
    if (end < begin || end > names.bytes.size()) {
      return ColumnError(part, kind + " name " + std::to_string(i), "end",
                         std::to_string(begin) + " to " + std::to_string(names.bytes.size()),
                         std::to_string(end));
    }
    begin = end;
  }
  if (begin != names.bytes.size()) {
    return ColumnError(part, kind + " names", "bytes", begin, names.bytes.size());
  }
  return {};
}

}  // namespace

Status ColumnError(std::string_view part, std::string_view where, std::string_view field,
                   std::string_view expected, std::string_view found) {
  std::string message(part);
  message.append(": ").append(where).append(": ").append(field);
  message.append(": expected ").append(expected).append(", found ").append(found);
  return Status(StatusCode::kCorrupt, std::move(message));
}

Status ColumnError(std::string_view part, std::string_view where, std::string_view field,
                   uint64_t expected, uint64_t found) {
  return ColumnError(part, where, field, std::to_string(expected), std::to_string(found));
}

std::string ItemTitle(std::string_view kind, const NameView& names, uint32_t i) {
  if (!names.Holds(i)) return std::string(kind) + " " + std::to_string(i);
  return std::string(kind) + " '" + Printable(names[i]) + "'";
}

Status CheckLengths(std::string_view part, std::span<const ColumnLength> columns) {
  for (const ColumnLength& column : columns) {
    if (column.found != column.expected) {
      return ColumnError(part, column.name, "entries", column.expected, column.found);
    }
  }
  return {};
}

Status CheckNames(std::string_view part, const NameView& names, const std::string& kind) {
  DSCKPT_RETURN_IF_ERROR(CheckEnds(part, names, kind));
  const bool plain = PlainAscii(names.bytes);
  std::string_view previous;
  for (uint32_t i = 0; i < names.size(); ++i) {
    const std::string_view name = names[i];
    if (i > 0 && previous >= name) {
      return ColumnError(part, ItemTitle(kind, names, i), "name",
                         "above '" + Printable(previous) + "' in byte order", "not above it");
    }
    // Reserved names begin with an underscore (format/names.h).
    if (!plain || name.empty() || name[0] == '_' || name.size() > kMaxNameBytes) {
      DSCKPT_RETURN_IF_ERROR(CheckName(part, kind, name));
    }
    previous = name;
  }
  return {};
}

Status CheckDTypes(std::string_view part, std::span<const DTypeRecord> dtypes) {
  if (dtypes.size() > kMaxDistinctTypes) {
    return ColumnError(part, "dtypes", "entries", "at most " + std::to_string(kMaxDistinctTypes),
                       std::to_string(dtypes.size()));
  }
  for (size_t i = 0; i < dtypes.size(); ++i) {
    const DTypeRecord& dtype = dtypes[i];
    const std::string where = "dtype " + std::to_string(dtype.code);
    if (dtype.block_elements == 0)
      return ColumnError(part, where, "block_elements", "at least 1", "0");
    if (dtype.block_bytes == 0) return ColumnError(part, where, "block_bytes", "at least 1", "0");
    if (const auto known = FindDType(DType{dtype.code});
        known &&
        dtype != DTypeRecord{dtype.code, known->bits, known->block_elements, known->block_bytes}) {
      return ColumnError(part, where, "description", "that of " + std::string(known->name),
                         std::to_string(dtype.block_elements) + " elements in " +
                             std::to_string(dtype.block_bytes) + " bytes");
    }
    const auto same = [&](const DTypeRecord& other) { return other.code == dtype.code; };
    if (std::any_of(dtypes.begin(), dtypes.begin() + i, same)) {
      return ColumnError(part, where, "entries", 1, 2);
    }
  }
  return {};
}

bool ShapeElements(std::span<const int64_t> shape, uint64_t& elements) {
  int64_t nonzero = 1;
  bool empty = false;
  for (const int64_t dim : shape) {
    if (dim < 0 || (dim > 0 && __builtin_mul_overflow(nonzero, dim, &nonzero))) return false;
    empty |= dim == 0;
  }
  elements = empty ? 0 : static_cast<uint64_t>(nonzero);
  return true;
}

bool ShapeBytes(std::span<const int64_t> shape, const DTypeRecord& dtype, uint64_t& bytes) {
  uint64_t blocks = 0;
  if (!ShapeElements(shape, blocks)) return false;
  if (dtype.block_elements != 1) {
    if (blocks % dtype.block_elements != 0) return false;
    blocks /= dtype.block_elements;
  }
  return !__builtin_mul_overflow(blocks, uint64_t{dtype.block_bytes}, &bytes);
}

}  // namespace dsckpt::format
