// Opens a plain safetensors file as one whose items have no checksums.

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "dsckpt/limits.h"
#include "format/header/header.h"
#include "reader/file/file_impl.h"

namespace dsckpt::reader {

namespace {

/// Position of `dtype` in the table, which gains it at first use. The registry has fewer entries
/// than the table has room for.
uint8_t DTypePosition(const DTypeInfo& dtype, std::vector<format::DTypeRecord>& table) {
  const format::DTypeRecord record{static_cast<uint16_t>(dtype.code), dtype.bits,
                                   dtype.block_elements, dtype.block_bytes};
  const auto at = std::find(table.begin(), table.end(), record);
  const auto position = static_cast<uint8_t>(at - table.begin());
  if (at == table.end()) table.push_back(record);
  return position;
}

void AppendTensor(const format::HeaderEntry& entry, uint64_t data_begin,
                  format::IndexColumns& columns) {
  columns.tensor_names.Append(entry.name);
  columns.tensor_dtype.push_back(DTypePosition(entry.dtype, columns.dtypes));
  columns.dims.insert(columns.dims.end(), entry.shape.begin(), entry.shape.end());
  columns.dim_end.push_back(static_cast<uint32_t>(columns.dims.size()));
  columns.tensors.offset.push_back(data_begin + entry.begin);
  columns.tensors.raw_bytes.push_back(entry.end - entry.begin);
  columns.tensors.stored_bytes.push_back(entry.end - entry.begin);
  columns.tensors.encoding.push_back(static_cast<uint8_t>(Encoding::kRaw));
  columns.tensors.chunk_end.push_back(0);  // No sums in this format.
  columns.tensors.stored_chunk_end.push_back(0);
}

std::unique_ptr<format::IndexColumns> ToColumns(const std::vector<format::HeaderEntry>& entries,
                                                uint64_t data_begin) {
  std::vector<uint32_t> by_name(entries.size());
  std::iota(by_name.begin(), by_name.end(), 0u);
  std::sort(by_name.begin(), by_name.end(),
            [&](uint32_t a, uint32_t b) { return entries[a].name < entries[b].name; });
  auto columns = std::make_unique<format::IndexColumns>();
  for (const uint32_t i : by_name) AppendTensor(entries[i], data_begin, *columns);
  return columns;
}

/// The length N, checked before anything of that size is allocated.
Result<uint64_t> HeaderLength(const io::InputFile& input) {
  const uint64_t size = input.size();
  if (size < 8) {
    return Status(StatusCode::kTruncated,
                  "a safetensors file has at least 8 bytes, this one " + std::to_string(size));
  }
  std::byte raw[8];
  DSCKPT_RETURN_IF_ERROR(input.ReadAt(0, raw));
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0;) length = length << 8 | std::to_integer<uint64_t>(raw[i]);
  if (length > kMaxHeaderJsonBytes) {
    return Status(StatusCode::kCorrupt, "the header length " + std::to_string(length) +
                                            " exceeds safetensors' limit of " +
                                            std::to_string(kMaxHeaderJsonBytes) + " bytes")
        .WithOffset(0);
  }
  if (length > size - 8) {
    return Status(StatusCode::kTruncated, "the header length says that the file has at least " +
                                              std::to_string(length + 8) + " bytes, but it has " +
                                              std::to_string(size))
        .WithOffset(0);
  }
  return length;
}

}  // namespace

Result<std::string> ReadHeaderRegion(const io::InputFile& input, uint64_t header_bytes) {
  std::string region(header_bytes, '\0');
  DSCKPT_RETURN_IF_ERROR(input.ReadAt(0, std::as_writable_bytes(std::span(region))));
  return region;
}

Result<SafetensorsIndex> ReadSafetensorsIndex(const io::InputFile& input) {
  DSCKPT_ASSIGN_OR_RETURN(const uint64_t length, HeaderLength(input));
  DSCKPT_ASSIGN_OR_RETURN(const std::string region, ReadHeaderRegion(input, 8 + length));
  const uint64_t data_bytes = input.size() - region.size();
  auto header = format::ParseHeader(std::string_view(region).substr(8), data_bytes);
  if (header.ok()) {
    return SafetensorsIndex{ToColumns(header->entries, region.size()), region.size()};
  }
  return header.status();
}

}  // namespace dsckpt::reader
