#include "format/header/check.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "dsckpt/limits.h"
#include "format/names.h"

namespace dsckpt::format {
namespace {

// Sorted by hash, so that hostile names cannot make it quadratic and honest ones are rarely
// compared.
template <typename Items, typename NameOf>
const std::string* FindDuplicate(const Items& items, const NameOf& name_of) {
  std::vector<std::pair<uint64_t, const std::string*>> names;
  names.reserve(items.size());
  for (const auto& item : items) {
    const std::string& name = name_of(item);
    names.emplace_back(XXH3_64bits(name.data(), name.size()), &name);
  }
  std::sort(names.begin(), names.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : *a.second < *b.second;
  });
  const auto found = std::adjacent_find(
      names.begin(), names.end(),
      [](const auto& a, const auto& b) { return a.first == b.first && *a.second == *b.second; });
  return found == names.end() ? nullptr : found->second;
}

Status CheckNames(const Header& header) {
  if (const std::string* name = FindDuplicate(
          header.entries, [](const HeaderEntry& e) -> auto& { return e.name; })) {
    return HeaderError(StatusCode::kCorrupt, "duplicate name " + Quoted(*name));
  }
  if (const std::string* name = FindDuplicate(
          header.metadata, [](const auto& m) -> auto& { return m.first; })) {
    return HeaderError(StatusCode::kCorrupt,
                       "duplicate name " + Quoted(*name) + " in __metadata__");
  }
  return {};
}

Status CheckEntry(const HeaderEntry& entry) {
  const auto bad = [&entry](const std::string& what) {
    return HeaderError(StatusCode::kCorrupt, "tensor " + Quoted(entry.name) + ": " + what);
  };
  const auto offsets = [&entry] {
    return "data_offsets [" + std::to_string(entry.begin) + "," + std::to_string(entry.end) + "]";
  };
  if (entry.begin > entry.end) return bad(offsets() + " end before they begin");
  if (entry.end > kMaxFileBytes) return bad(offsets() + " lie beyond any possible file");
  const Result<uint64_t> bytes = TensorBytes(entry.dtype, entry.shape);
  if (!bytes.ok()) return bad(bytes.status().message());
  if (bytes.value() != entry.end - entry.begin) {
    return bad(offsets() + " hold " + std::to_string(entry.end - entry.begin) +
               " bytes, but dtype and shape take " + std::to_string(bytes.value()));
  }
  return {};
}

Status CheckLayout(const Header& header, uint64_t json_bytes, uint64_t data_bytes) {
  uint64_t end = 0;
  const HeaderEntry* before = nullptr;
  for (const HeaderEntry& entry : header.entries) {
    if (entry.begin < end) {
      return HeaderError(StatusCode::kCorrupt, "tensors " + Quoted(before->name) + " and " +
                                                   Quoted(entry.name) + " overlap at " +
                                                   std::to_string(entry.begin) + " of the data");
    }
    if (entry.begin > end) {
      return HeaderError(StatusCode::kCorrupt, "hole of " + std::to_string(entry.begin - end) +
                                                   " bytes before tensor " + Quoted(entry.name) +
                                                   ": it begins at " + std::to_string(entry.begin) +
                                                   " of the data, expected " + std::to_string(end));
    }
    end = entry.end;
    before = &entry;
  }
  if (end == data_bytes) return {};
  const uint64_t data_begin = 8 + json_bytes;
  const std::string sizes = ": expected " + std::to_string(data_begin + end) +
                            " bytes in the file, found " + std::to_string(data_begin + data_bytes);
  const std::string last = before == nullptr ? "the header" : "tensor " + Quoted(before->name);
  if (end > data_bytes) {
    return Status(StatusCode::kTruncated, "truncated inside or before " + last + sizes)
        .WithOffset(data_begin + data_bytes);
  }
  return Status(StatusCode::kTrailingBytes, "trailing bytes after " + last + sizes)
      .WithOffset(data_begin + end);
}

}  // namespace

std::string Quoted(std::string_view name) {
  constexpr size_t kShown = 200;
  std::string text = "'";
  text += Printable(name.substr(0, kShown));
  text += name.size() > kShown ? "...'" : "'";
  return text;
}

Status HeaderError(StatusCode code, const std::string& what) {
  return Status(code, "safetensors header: " + what);
}

Status CheckHeader(Header& header, uint64_t json_bytes, uint64_t data_bytes) {
  // Names first: a name given twice would otherwise show as an overlap.
  DSCKPT_RETURN_IF_ERROR(CheckNames(header));
  for (const HeaderEntry& entry : header.entries) DSCKPT_RETURN_IF_ERROR(CheckEntry(entry));
  std::sort(header.entries.begin(), header.entries.end(),
            [](const HeaderEntry& a, const HeaderEntry& b) {
              if (a.begin != b.begin) return a.begin < b.begin;
              return a.end != b.end ? a.end < b.end : a.name < b.name;
            });
  return CheckLayout(header, json_bytes, data_bytes);
}

}  // namespace dsckpt::format
