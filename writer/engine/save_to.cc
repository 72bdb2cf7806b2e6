// Sequential output.

#include <algorithm>
#include <cstring>
#include <vector>

#include "dsckpt/engine.h"
#include "format/checksum.h"
#include "format/codec.h"
#include "format/names.h"
#include "io/device.h"
#include "state/source_bytes.h"
#include "writer/engine/describe.h"
#include "writer/engine/finish.h"
#include "writer/engine/statistics.h"

namespace dsckpt {
namespace {

/// Emits a file image front to back. Twice over the encoded items: sizes first, because the header
/// comes first.
class SequentialSave {
 public:
  SequentialSave(Sink& sink, const LaidOutState& state, const SaveOptions& options)
      : sink_(sink),
        options_(options),
        layout_(*state.layout),
        data_(state.data()),
        buffer_(kChunkBytes),
        tensor_sums_(layout_.columns.tensors.chunk_end.empty()
                         ? 0
                         : layout_.columns.tensors.chunk_end.back()),
        statistics_(data_, layout_, options.statistics),
        appended_(layout_.appended.size()) {}

  Status Run() {
    if (!layout_.shard) {
      DSCKPT_RETURN_IF_ERROR(Write(std::as_bytes(std::span(layout_.header.region))));
      return WritePlaced();
    }
    position_ = layout_.appended_begin;
    DSCKPT_RETURN_IF_ERROR(WalkAppended(/*emit=*/false));
    const uint64_t index_offset = (position_ + kLogAlignment - 1) / kLogAlignment * kLogAlignment;
    // Sums and statistics do not change the index's size, so one with whatever they are now gives
    // it.
    DSCKPT_ASSIGN_OR_RETURN(auto index, MakeIndex(data_, layout_, tensor_sums_, appended_,
                                                  statistics_.Join(), options_));
    const Closing sized = MakeClosing(layout_, index, index_offset);

    position_ = 0;
    DSCKPT_RETURN_IF_ERROR(Write(std::as_bytes(std::span(sized.header))));
    DSCKPT_RETURN_IF_ERROR(WritePlaced());
    DSCKPT_RETURN_IF_ERROR(PadTo(layout_.appended_begin));
    DSCKPT_RETURN_IF_ERROR(WalkAppended(/*emit=*/true));
    DSCKPT_RETURN_IF_ERROR(PadTo(index_offset));
    DSCKPT_ASSIGN_OR_RETURN(
        index, MakeIndex(data_, layout_, tensor_sums_, appended_, statistics_.Join(), options_));
    DSCKPT_RETURN_IF_ERROR(Write(index));
    return Write(MakeClosing(layout_, index, index_offset).footer);
  }

 private:
  Status Write(std::span<const std::byte> bytes) {
    position_ += bytes.size();
    return sink_.Write(bytes);
  }

  Status PadTo(uint64_t offset) {
    const std::vector<std::byte> zeros(offset - position_);
    return zeros.empty() ? Status() : Write(zeros);
  }

  Status WritePlaced() {
    for (const TensorOrdinal ordinal : layout_.placed_order) {
      if (layout_.raw_bytes[ordinal] == 0) continue;
      DSCKPT_RETURN_IF_ERROR(PadTo(layout_.offset[ordinal]));
      uint32_t sum = layout_.FirstSum(ordinal);
      for (uint64_t begin = 0; begin < layout_.raw_bytes[ordinal]; begin += kChunkBytes) {
        DSCKPT_ASSIGN_OR_RETURN(const auto raw, ReadTensor(ordinal, begin));
        tensor_sums_[sum++] = format::HashChunk(raw);
        statistics_.Measure(ordinal, begin / kChunkBytes, raw);
        DSCKPT_RETURN_IF_ERROR(Write(raw));
      }
    }
    return Status();
  }

  Result<std::span<std::byte>> ReadTensor(TensorOrdinal ordinal, uint64_t begin) {
    const auto raw =
        std::span(buffer_).first(std::min(kChunkBytes, layout_.raw_bytes[ordinal] - begin));
    const SourceIndex source_index = layout_.tensors[ordinal];
    const auto& source = data_.sources.tensors[source_index];
    if (!source.producer) {
      DSCKPT_RETURN_IF_ERROR(ReadHostTensor(data_, source_index, begin, raw));
      return raw;
    }
    const auto [device, stream] = data_.sources.ProducerOf(source_index);
    DSCKPT_RETURN_IF_ERROR(
        io::ReadDevice(device, stream, static_cast<const std::byte*>(source.data) + begin, raw));
    return raw;
  }

  /// Measures (emit false) or writes the appended items from position_ on.
  Status WalkAppended(bool emit) {
    for (size_t i = 0; i < layout_.appended.size(); ++i) {
      const uint64_t begin = (position_ + kLogAlignment - 1) / kLogAlignment * kLogAlignment;
      if (emit) {
        DSCKPT_RETURN_IF_ERROR(PadTo(begin));
      } else {
        position_ = begin;
      }
      const uint64_t expected = appended_[i].stored_bytes;
      appended_[i] = AppendedRecord{};
      appended_[i].offset = begin;
      DSCKPT_RETURN_IF_ERROR(WriteItem(layout_.appended[i], emit, appended_[i]));
      appended_[i].stored_bytes = position_ - begin;
      if (emit && appended_[i].stored_bytes != expected) {
        return Status(StatusCode::kFailedPrecondition,
                      "an encoded item changed while it was saved: its stored size was " +
                          std::to_string(expected) + ", now " +
                          std::to_string(appended_[i].stored_bytes));
      }
    }
    return Status();
  }

  Status WriteItem(const FileLayout::AppendedItem& item, bool emit, AppendedRecord& record) {
    uint32_t element_bytes = 1;
    Encoding encoding;
    const std::byte* object = nullptr;
    if (item.is_object) {
      const ObjectIndex object_index = layout_.objects[item.object];
      const auto& source = data_.sources.objects[object_index];
      if (source.write) {
        return Status(StatusCode::kUnsupported,
                      "object '" + format::Printable(data_.identity.ObjectName(object_index)) +
                          "' streams from a callback, so its size is not known in advance: give "
                          "bytes, or save to a file");
      }
      object = static_cast<const std::byte*>(source.bytes);
      encoding = data_.identity.objects[object_index].encoding;
      record.raw_bytes = source.size;
    } else {
      const auto& tensor = data_.identity.tensors[layout_.tensors[item.tensor]];
      encoding = tensor.encoding;
      element_bytes = ElementBytes(tensor.dtype);
      record.raw_bytes = layout_.raw_bytes[item.tensor];
    }
    for (uint64_t begin = 0; begin < record.raw_bytes; begin += kChunkBytes) {
      const uint64_t bytes = std::min(kChunkBytes, record.raw_bytes - begin);
      std::span<const std::byte> stored(object == nullptr ? nullptr : object + begin, bytes);
      if (object == nullptr) {
        DSCKPT_ASSIGN_OR_RETURN(stored, ReadTensor(item.tensor, begin));
        // Once: the first walk is for the sizes.
        if (emit) statistics_.Measure(item.tensor, begin / kChunkBytes, stored);
      }
      record.sums.push_back(format::HashChunk(stored));
      if (encoding != Encoding::kRaw) {
        DSCKPT_ASSIGN_OR_RETURN(stored, encoder_.Encode(encoding, element_bytes, stored));
        record.stored_chunks.push_back(
            {format::Hash64(stored), static_cast<uint32_t>(stored.size()), 0});
      }
      if (!emit) {
        position_ += stored.size();
      } else {
        DSCKPT_RETURN_IF_ERROR(Write(stored));
      }
    }
    return Status();
  }

  Sink& sink_;
  const SaveOptions& options_;
  const FileLayout& layout_;
  const Description::Data& data_;
  std::vector<std::byte> buffer_;
  std::vector<Hash128> tensor_sums_;
  SaveStatistics statistics_;
  std::vector<AppendedRecord> appended_;
  format::ChunkEncoder encoder_;
  uint64_t position_ = 0;
};

}  // namespace

Status SaveTo(Sink& sink, const StateProvider& provider, const SaveOptions& options) {
  DSCKPT_ASSIGN_OR_RETURN(const auto state, Describe(provider, options, nullptr));
  return SequentialSave(sink, *state, options).Run();
}

}  // namespace dsckpt
