#ifndef DSCKPT_FORMAT_COLUMNS_FLATBUFFER_BORROW_H_
#define DSCKPT_FORMAT_COLUMNS_FLATBUFFER_BORROW_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "format/columns/check.h"
#include "format/index/records.h"

// Reading columns out of a verified FlatBuffer: shared by the index and the manifest.

namespace dsckpt::format {

/// Points spans at the columns of a verified FlatBuffer. The verifier bounds vectors but does not
/// align their elements; remembers whether all of them were.
class Borrower {
 public:
  template <typename T, typename Stored>
  std::span<const T> Column(const flatbuffers::Vector<Stored>* vector) {
    // Builders do not align what has no elements.
    if (vector->size() == 0) return {};
    aligned_ &= reinterpret_cast<uintptr_t>(vector->Data()) % alignof(T) == 0;
    return {reinterpret_cast<const T*>(vector->Data()), vector->size()};
  }
  NameView Names(const fbs::Names* names) {
    return {Column<char>(names->bytes()), Column<uint32_t>(names->ends())};
  }
  PayloadView Payload(const fbs::Payload* payload) {
    return {
        Column<uint64_t>(payload->offset()),       Column<uint64_t>(payload->raw_bytes()),
        Column<uint64_t>(payload->stored_bytes()), Column<uint8_t>(payload->encoding()),
        Column<uint32_t>(payload->chunk_end()),    Column<uint32_t>(payload->stored_chunk_end())};
  }
  PieceView Pieces(const fbs::Pieces* pieces) {
    return {Names(pieces->logical_names()),          Column<uint32_t>(pieces->logical_dim_end()),
            Column<int64_t>(pieces->logical_dims()), Column<uint32_t>(pieces->tensor()),
            Column<uint32_t>(pieces->logical()),     Column<uint64_t>(pieces->element_offset()),
            Column<uint8_t>(pieces->form()),         Column<uint32_t>(pieces->bounds_end()),
            Column<uint64_t>(pieces->bounds()),      Column<uint32_t>(pieces->replica_group())};
  }
  Status CheckAligned(std::string_view part) const {
    if (aligned_) return {};
    return ColumnError(part, "columns", "alignment",
                       "every column at a multiple of its element size", "a column that is not");
  }

 private:
  bool aligned_ = true;
};

using StringVector = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;

/// The only copies that a parse makes: as many as `limit`, which is what ordinals can address.
inline Status BorrowStrings(std::string_view part, const StringVector* strings,
                            std::string_view field, uint64_t limit,
                            std::vector<std::string_view>& out) {
  if (strings->size() > limit) {
    return ColumnError(part, field, "entries", "at most " + std::to_string(limit),
                       std::to_string(strings->size()));
  }
  out.reserve(strings->size());
  for (const auto* text : *strings) out.emplace_back(text->c_str(), text->size());
  return {};
}

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_COLUMNS_FLATBUFFER_BORROW_H_
