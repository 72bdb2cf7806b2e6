#ifndef DSCKPT_FORMAT_COLUMNS_FLATBUFFER_BUILD_H_
#define DSCKPT_FORMAT_COLUMNS_FLATBUFFER_BUILD_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "format/index/records.h"

// Encoding columns, and bounding what they take: shared by the index and the manifest.

namespace dsckpt::format {

using Builder = flatbuffers::FlatBufferBuilder;

// The builder's memory is the vector that is returned in the end: no second copy of a large index.
class VectorAllocator final : public flatbuffers::Allocator {
 public:
  explicit VectorAllocator(std::vector<std::byte>& memory) : memory_(memory) {}
  // Called once: the builder's initial size is an upper bound.
  uint8_t* allocate(size_t size) override {
    memory_.resize(size);
    return reinterpret_cast<uint8_t*>(memory_.data());
  }
  void deallocate(uint8_t*, size_t) override {}

 private:
  std::vector<std::byte>& memory_;
};

/// Leaves in `memory` what was built, padded with zeros to a multiple of 8: the builder fills its
/// memory from the end, and aligns to no more than what it was asked for.
inline void KeepBuilt(const Builder& builder, std::vector<std::byte>& memory) {
  memory.erase(memory.begin(), memory.end() - builder.GetSize());
  memory.resize((memory.size() + 7) / 8 * 8);
}

// A vector's length field, and the alignment before and after it.
inline constexpr uint64_t kVectorOverhead = 16;
template <typename V>
uint64_t Bound(const V& column) {
  return column.size() * sizeof(column[0]) + kVectorOverhead;
}

inline uint64_t Bound(const NameColumns& names) { return Bound(names.bytes) + Bound(names.ends); }

inline uint64_t Bound(const std::vector<std::string>& strings) {
  uint64_t bytes = kVectorOverhead;
  // An offset, and a text with its NUL.
  for (const std::string& text : strings) bytes += text.size() + kVectorOverhead + 5;
  return bytes;
}

uint64_t Bound(const PieceColumns& pieces);

// Builders leave an empty vector where its length field happens to end, at a multiple of 4; readers
// of other languages refuse that for elements of 8 bytes. Costs no byte where there are elements.
template <typename Element>
void AlignFor(Builder& builder) {
  builder.Align(alignof(Element));
}

template <typename T>
auto Scalars(Builder& builder, const std::vector<T>& column) {
  AlignFor<T>(builder);
  return builder.CreateVector(column.data(), column.size());
}

inline auto Bytes(Builder& builder, const std::string& bytes) {
  return builder.CreateVector(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

template <typename Stored, typename Record>
auto Structs(Builder& builder, const std::vector<Record>& column) {
  AlignFor<Stored>(builder);
  return builder.CreateVectorOfStructs(reinterpret_cast<const Stored*>(column.data()),
                                       column.size());
}

inline auto Strings(Builder& builder, const std::vector<std::string>& strings) {
  std::vector<flatbuffers::Offset<flatbuffers::String>> offsets;
  offsets.reserve(strings.size());
  for (const std::string& text : strings) offsets.push_back(builder.CreateString(text));
  return builder.CreateVector(offsets);
}

inline auto Names(Builder& builder, const NameColumns& names) {
  const auto bytes = Bytes(builder, names.bytes);
  const auto ends = Scalars(builder, names.ends);
  return fbs::CreateNames(builder, bytes, ends);
}

flatbuffers::Offset<fbs::Pieces> BuildPieces(Builder& builder, const PieceColumns& pieces);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_COLUMNS_FLATBUFFER_BUILD_H_
