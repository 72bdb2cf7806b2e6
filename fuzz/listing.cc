// Compares the JSON header of a shard with its index: what passes is what a strict parser reads
// there.

#include "format/header/listing.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "format/footer/footer.h"
#include "format/header/from_index.h"
#include "format/header/header.h"
#include "format/index/index.h"
#include "fuzz/input.h"

namespace {

using namespace dsckpt;

/// Whether the parsed header has the listed tensors of the index and what covers the tail.
bool HasTensors(const format::Header& header, const format::IndexView& index, uint64_t data_begin) {
  const std::vector<uint32_t> listed = format::ListedTensors(index);
  if (header.entries.size() != listed.size() + 1) return false;
  for (size_t i = 0; i < listed.size(); ++i) {
    const format::HeaderEntry& entry = header.entries[i];
    const auto shape = index.shape(listed[i]);
    if (entry.name != index.tensor_names[listed[i]] ||
        static_cast<uint16_t>(entry.dtype.code) !=
            index.dtypes[index.tensor_dtype[listed[i]]].code ||
        !std::equal(shape.begin(), shape.end(), entry.shape.begin(), entry.shape.end()) ||
        data_begin + entry.begin != index.tensors.offset[listed[i]]) {
      return false;
    }
  }
  return header.entries.back().name == format::kTailName;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> file(begin, begin + size);
  RepairChecksums(file);
  const std::span<const std::byte> bytes = file;
  const auto head = bytes.first(std::min<size_t>(size, 4096));
  const auto tail = bytes.last(std::min<size_t>(size, kFooterBytes));
  const auto what = format::Classify(head, tail, size);
  if (!what.ok() || what->kind != format::FileKind::kShard) return 0;
  const format::Footer& footer = what->footer;
  const auto stored = bytes.subspan(footer.index_offset, footer.index_bytes);
  std::vector<uint64_t> aligned(stored.size() / 8 + 1);
  std::memcpy(aligned.data(), stored.data(), stored.size());
  const auto index =
      format::ParseIndex(std::as_bytes(std::span(aligned)).first(stored.size()),
                         {footer.data_begin, footer.tail_begin, footer.index_offset});
  if (!index.ok()) return 0;

  const std::string_view region(reinterpret_cast<const char*>(file.data()), footer.data_begin);
  const Status status = format::CheckListing(region, *index, footer.tail_begin, footer.file_bytes);
  const auto header = format::ParseHeader(region.substr(8), footer.file_bytes - footer.data_begin);
  // Where there is no room for names, that is right too: no input is that large.
  const bool same = header.ok() && HasTensors(*header, *index, footer.data_begin);
  if (status.ok() && !same) __builtin_trap();
  return 0;
}
