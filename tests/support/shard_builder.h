#ifndef DSCKPT_TESTS_SUPPORT_SHARD_BUILDER_H_
#define DSCKPT_TESTS_SUPPORT_SHARD_BUILDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/provider.h"
#include "format/checksum.h"
#include "format/codec.h"
#include "format/footer/footer.h"
#include "format/header/header.h"
#include "format/index/index.h"
#include "state/description.h"
#include "state/file_layout.h"
#include "state/strided.h"

/// Builds the bytes of a shard in memory with format/ alone: an oracle for readers, independent of
/// the writer, and a way to files that no writer makes.
class ShardBuilder {
 public:
  using Describe = std::function<void(dsckpt::Description&)>;

  /// Called with all columns just before the index is encoded.
  std::function<void(dsckpt::format::IndexColumns&)> edit_index = {};
  /// Called with the header region, sizes patched, before it is hashed.
  std::function<void(std::string&)> edit_header = {};
  /// Called with the footer before it is encoded.
  std::function<void(dsckpt::format::Footer&)> edit_footer = {};
  dsckpt::format::Metadata metadata = {{"format", "pt"}};

  dsckpt::Result<std::string> Build(const Describe& describe) {
    using namespace dsckpt;
    Description description;
    describe(description);
    DSCKPT_RETURN_IF_ERROR(description.status());
    DSCKPT_ASSIGN_OR_RETURN(const FileLayout layout,
                            BuildFileLayout(description.data(), true, metadata));
    return Assemble(description.data(), layout);
  }

  /// Of the last Build().
  const dsckpt::format::Footer& footer() const { return footer_; }

 private:
  struct Log {
    std::vector<std::vector<dsckpt::format::StoredChunk>> tensors, objects;
  };

  static std::string RawTensor(const dsckpt::Description::Data& data, dsckpt::SourceIndex i) {
    using namespace dsckpt;
    const auto& source = data.sources.tensors[i];
    std::string raw(source.raw_bytes, '\0');
    if (source.strides_begin == Description::Data::kContiguous) {
      if (!raw.empty()) std::memcpy(raw.data(), source.data, raw.size());
      return raw;
    }
    const auto shape = data.Shape(i);
    const auto strides =
        std::span(data.sources.strides).subspan(source.strides_begin, shape.size());
    auto* at = static_cast<std::byte*>(const_cast<void*>(source.data));
    Gather({at, FindDType(data.identity.tensors[i].dtype)->block_bytes, shape, strides}, 0,
           std::as_writable_bytes(std::span(raw)));
    return raw;
  }

  static std::string RawObject(const dsckpt::Description::Data& data, dsckpt::ObjectIndex i) {
    const auto& source = data.sources.objects[i];
    return {static_cast<const char*>(source.bytes), source.size};
  }

  static std::vector<dsckpt::Hash128> Sums(const std::string& raw) {
    std::vector<dsckpt::Hash128> sums;
    for (size_t at = 0; at < raw.size(); at += dsckpt::kChunkBytes) {
      sums.push_back(
          dsckpt::format::HashChunk(std::as_bytes(std::span(raw)).subspan(at, Length(raw, at))));
    }
    return sums;
  }

  static size_t Length(const std::string& raw, size_t at) {
    return std::min<size_t>(dsckpt::kChunkBytes, raw.size() - at);
  }

  /// The stored form of an encoded item, and its chunk entries.
  static std::string Encode(const std::string& raw, dsckpt::Encoding encoding, uint32_t width,
                            std::vector<dsckpt::format::StoredChunk>& chunks) {
    if (encoding == dsckpt::Encoding::kRaw) return raw;
    dsckpt::format::ChunkEncoder encoder;
    std::string stored;
    for (size_t at = 0; at < raw.size(); at += dsckpt::kChunkBytes) {
      const auto chunk = std::as_bytes(std::span(raw)).subspan(at, Length(raw, at));
      const auto bytes = encoder.Encode(encoding, width, chunk).value();
      chunks.push_back({dsckpt::format::Hash64(bytes), static_cast<uint32_t>(bytes.size()), 0});
      stored.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    return stored;
  }

  static void Place(std::string& image, uint64_t offset, const std::string& bytes) {
    if (image.size() < offset + bytes.size()) image.resize(offset + bytes.size());
    std::copy(bytes.begin(), bytes.end(), image.begin() + static_cast<std::ptrdiff_t>(offset));
  }

  static void PadTo(std::string& image, uint64_t alignment) {
    image.resize((image.size() + alignment - 1) / alignment * alignment);
  }

  void PlaceRaw(const dsckpt::Description::Data& data, const dsckpt::FileLayout& layout,
                dsckpt::format::IndexColumns& columns, std::string& image) {
    image.resize(layout.data_begin);
    for (const dsckpt::TensorOrdinal ordinal : layout.placed_order) {
      Place(image, layout.offset[ordinal], RawTensor(data, layout.tensors[ordinal]));
      columns.tensors.offset[ordinal.value()] = layout.offset[ordinal];
      columns.tensors.stored_bytes[ordinal.value()] = layout.raw_bytes[ordinal];
    }
    image.resize(std::max<uint64_t>(image.size(), layout.appended_begin));
  }

  void PlaceLog(const dsckpt::Description::Data& data, const dsckpt::FileLayout& layout,
                dsckpt::format::IndexColumns& columns, Log& log, std::string& image) {
    using namespace dsckpt;
    for (const auto& item : layout.appended) {
      PadTo(image, kLogAlignment);
      auto& payload = item.is_object ? columns.objects : columns.tensors;
      const uint32_t ordinal = item.is_object ? item.object.value() : item.tensor.value();
      auto& chunks = item.is_object ? log.objects[ordinal] : log.tensors[ordinal];
      std::string raw, stored;
      if (item.is_object) {
        const ObjectIndex object = layout.objects[item.object];
        raw = RawObject(data, object);
        stored = Encode(raw, data.identity.objects[object].encoding, 1, chunks);
      } else {
        const SourceIndex tensor = layout.tensors[item.tensor];
        const auto& identity = data.identity.tensors[tensor];
        raw = RawTensor(data, tensor);
        stored = Encode(raw, identity.encoding, FindDType(identity.dtype)->block_bytes, chunks);
      }
      payload.offset[ordinal] = image.size();
      payload.raw_bytes[ordinal] = raw.size();
      payload.stored_bytes[ordinal] = stored.size();
      image += stored;
    }
    PadTo(image, kLogAlignment);
  }

  static void Fit(dsckpt::format::PayloadColumns& payload, size_t count) {
    for (auto* column : {&payload.offset, &payload.raw_bytes, &payload.stored_bytes}) {
      column->resize(count);
    }
    payload.chunk_end.resize(count);
    payload.stored_chunk_end.resize(count);
  }

  static void AppendChunks(dsckpt::format::IndexColumns& columns,
                           dsckpt::format::PayloadColumns& payload, size_t ordinal,
                           const std::vector<dsckpt::Hash128>& sums,
                           const std::vector<dsckpt::format::StoredChunk>& stored) {
    columns.chunk_sums.insert(columns.chunk_sums.end(), sums.begin(), sums.end());
    columns.stored_chunks.insert(columns.stored_chunks.end(), stored.begin(), stored.end());
    payload.chunk_end[ordinal] = static_cast<uint32_t>(columns.chunk_sums.size());
    payload.stored_chunk_end[ordinal] = static_cast<uint32_t>(columns.stored_chunks.size());
  }

  dsckpt::Result<std::string> Assemble(const dsckpt::Description::Data& data,
                                       const dsckpt::FileLayout& layout) {
    using namespace dsckpt;
    format::IndexColumns columns = layout.columns;
    Fit(columns.tensors, layout.tensors.size());
    Fit(columns.objects, layout.objects.size());
    Log log;
    log.tensors.resize(layout.tensors.size());
    log.objects.resize(layout.objects.size());
    std::string image;
    PlaceRaw(data, layout, columns, image);
    PlaceLog(data, layout, columns, log, image);
    columns.chunk_sums.clear();
    columns.stored_chunks.clear();
    for (size_t i = 0; i < layout.tensors.size(); ++i) {
      AppendChunks(columns, columns.tensors, i, Sums(RawTensor(data, layout.tensors.at(i))),
                   log.tensors[i]);
    }
    for (size_t i = 0; i < layout.objects.size(); ++i) {
      AppendChunks(columns, columns.objects, i, Sums(RawObject(data, layout.objects.at(i))),
                   log.objects[i]);
    }
    columns.tree = ResolveTree(data, layout);
    columns.attributes = data.attributes;
    return Finish(layout, columns, std::move(image));
  }

  dsckpt::Result<std::string> Finish(const dsckpt::FileLayout& layout,
                                     dsckpt::format::IndexColumns& columns, std::string image) {
    using namespace dsckpt;
    if (edit_index) edit_index(columns);
    DSCKPT_ASSIGN_OR_RETURN(std::vector<std::byte> index, format::EncodeIndex(columns));
    index.resize((index.size() + 7) / 8 * 8);
    footer_ = {};
    footer_.data_begin = layout.data_begin;
    footer_.tail_begin = layout.tail_begin;
    footer_.index_offset = image.size();
    footer_.index_bytes = index.size();
    footer_.index_xxh3_64 = format::Hash64(index);
    footer_.file_bytes = image.size() + index.size() + kFooterBytes;
    image.append(reinterpret_cast<const char*>(index.data()), index.size());
    std::string header = layout.header.region;
    format::PatchSizes(header, layout.header.lists_tensors ? layout.tail_begin : layout.data_begin,
                       footer_.file_bytes);
    if (edit_header) edit_header(header);
    image.replace(0, header.size(), header);
    footer_.header_xxh3_64 = format::Hash64(std::as_bytes(std::span(std::as_const(header))));
    if (edit_footer) edit_footer(footer_);
    const auto end = format::EncodeFooter(footer_);
    image.append(reinterpret_cast<const char*>(end.data()), end.size());
    return image;
  }

  dsckpt::format::Footer footer_;
};

#endif  // DSCKPT_TESTS_SUPPORT_SHARD_BUILDER_H_
