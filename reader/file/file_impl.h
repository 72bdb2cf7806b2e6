#ifndef DSCKPT_READER_FILE_FILE_IMPL_H_
#define DSCKPT_READER_FILE_FILE_IMPL_H_

// What an open file holds, and what the parts of the reader ask of it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/file.h"
#include "format/columns/columns.h"
#include "format/footer/footer.h"
#include "format/tree/data.h"
#include "io/input_file.h"
#include "io/memory.h"
#include "reader/chunk/stored_item.h"

namespace dsckpt {

/// An open file. Immutable once opened; shared by File handles, tensors and nodes.
struct DSCKPT_HIDDEN File::Impl {
  std::shared_ptr<const io::InputFile> input;
  std::shared_ptr<const io::Mapping> mapping;  // null: views read
  FileFormat format = FileFormat::kDsckpt;
  int threads = 0;
  uint64_t header_bytes = 0;                      // up to the first data byte: D
  format::Footer footer;                          // shards only
  io::AlignedBuffer index_memory;                 // shards: what `index` borrows from
  std::unique_ptr<format::IndexColumns> columns;  // plain safetensors: likewise
  format::IndexView index;
  std::vector<DTypeInfo> dtypes;  // by position in index.dtypes
  TreeData tree, attributes;      // without owner: nodes hold the whole Impl

  /// Ordinal of a tensor by name, aliases followed. Tries `hint` first: callers that ask in name
  /// order then skip the search.
  std::optional<uint32_t> FindTensor(std::string_view name, uint32_t hint = 0) const;
  Result<uint32_t> TensorOrdinal(std::string_view name, uint32_t hint = 0) const;
  Result<uint32_t> ObjectOrdinal(std::string_view name) const;
  TensorInfo Info(uint32_t tensor) const;
  /// The tensor's stored form; kUnsupported when its dtype or encoding is unknown to this release.
  Result<reader::StoredItem> ReadableTensor(uint32_t tensor) const;
  /// Hands the raw, checked bytes of each chunk of an item to `consume`, in order and on this
  /// thread. Items of any size take the memory of one chunk. An error of `consume` is returned.
  Status ReadByChunks(const reader::StoredItem& item,
                      const std::function<Status(std::span<const std::byte>)>& consume) const;
};

namespace reader {

/// What the registry says; for codes it lacks, what the file says. Parsers have checked that both
/// agree.
DTypeInfo DescribeDType(const format::DTypeRecord& record);

/// Bytes [0, header_bytes) as text, the 8-byte length included.
Result<std::string> ReadHeaderRegion(const io::InputFile& input, uint64_t header_bytes);

/// A plain safetensors file's items, sorted by name, and where its data begins.
struct SafetensorsIndex {
  std::unique_ptr<format::IndexColumns> columns;
  uint64_t header_bytes = 0;
};
/// Reads and checks the JSON header. kCorrupt, kTruncated, kTrailingBytes, kUnsupported (an unknown
/// dtype).
Result<SafetensorsIndex> ReadSafetensorsIndex(const io::InputFile& input);

/// `status` with the file's path, where it names none yet.
Status InFile(Status status, const io::InputFile& input);

}  // namespace reader
}  // namespace dsckpt

#endif  // DSCKPT_READER_FILE_FILE_IMPL_H_
