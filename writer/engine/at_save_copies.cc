#include "writer/engine/at_save_copies.h"

#include <algorithm>
#include <cstring>

#include "state/source_bytes.h"

namespace dsckpt {

void AtSaveCopies::Clear() {
  for (auto& block : blocks_) {
    if (block->outstanding.load() > 0)
      pool_.Release(io::WindowPool::Use::kAtSave, block->window.index);
  }
  blocks_.clear();
  pieces_ = {};
  tensor_piece_ = {};
  object_piece_ = {};
}

bool AtSaveCopies::Fits(uint64_t bytes) const {
  const uint64_t quota = static_cast<uint64_t>(pool_.count() / 2) * pool_.window_bytes();
  const uint64_t in_use = blocks_.empty() ? 0 : (blocks_.size() - 1) * pool_.window_bytes() + used_;
  return bytes <= quota - in_use;
}

std::span<std::byte> AtSaveCopies::Room(uint64_t wanted, uint64_t* waited_ns) {
  if (blocks_.empty() || used_ == pool_.window_bytes()) {
    auto block = std::make_unique<Block>();
    block->window = pool_.Acquire(io::WindowPool::Use::kAtSave, waited_ns);
    blocks_.push_back(std::move(block));
    used_ = 0;
  }
  const auto room = blocks_.back()->window.bytes.subspan(used_);
  return room.first(std::min<uint64_t>(wanted, room.size()));
}

template <typename Fill>
bool AtSaveCopies::CopyItem(uint64_t bytes, uint32_t* first_piece, uint64_t* waited_ns, Fill fill) {
  if (!Fits(bytes)) return false;
  *first_piece = static_cast<uint32_t>(pieces_.size());
  for (uint64_t begin = 0; begin < bytes;) {
    const auto room = Room(bytes - begin, waited_ns);
    fill(begin, room);
    const auto block = static_cast<uint32_t>(blocks_.size() - 1);
    pieces_.push_back({room.data(), room.size(), block});
    blocks_[block]->outstanding.fetch_add(room.size(), std::memory_order_relaxed);
    used_ += room.size();
    begin += room.size();
  }
  bytes_ += bytes;
  return true;
}

uint64_t AtSaveCopies::Copy(const Description::Data& data, const FileLayout& layout,
                            uint64_t* waited_ns, const DeviceCopy& device_copy) {
  tensor_piece_.assign(layout.tensors.size(), kNone);
  object_piece_.assign(layout.objects.size(), kNone);
  uint64_t left = 0;
  const auto tensor = [&](TensorOrdinal ordinal) {
    const SourceIndex source_index = layout.tensors[ordinal];
    const auto& source = data.sources.tensors[source_index];
    if (source.capture != Capture::kAtSave || source.raw_bytes == 0) return;
    const bool on_device = static_cast<bool>(source.producer);
    const bool fits = CopyItem(source.raw_bytes, &tensor_piece_[ordinal], waited_ns,
                               [&](uint64_t begin, std::span<std::byte> out) {
                                 if (!on_device) {
                                   return CopyFromMemory(data, source_index, begin, out);
                                 }
                                 device_bytes_ += out.size();
                                 device_copy(source_index, begin, out);
                               });
    if (!fits) left += source.raw_bytes;
  };
  for (const TensorOrdinal ordinal : layout.placed_order) tensor(ordinal);
  for (const auto& item : layout.appended) {
    if (!item.is_object) {
      tensor(item.tensor);
      continue;
    }
    const auto& source = data.sources.objects[layout.objects[item.object]];
    if (source.write || source.size == 0) continue;
    const auto* bytes = static_cast<const std::byte*>(source.bytes);
    const bool fits = CopyItem(source.size, &object_piece_[item.object], waited_ns,
                               [&](uint64_t begin, std::span<std::byte> out) {
                                 std::memcpy(out.data(), bytes + begin, out.size());
                               });
    if (!fits) left += source.size;
  }
  return left;
}

bool AtSaveCopies::TakeTensor(TensorOrdinal tensor, uint64_t begin, std::span<std::byte> out) {
  return Take(tensor_piece_[tensor], begin, out);
}

bool AtSaveCopies::TakeObject(ObjectOrdinal object, uint64_t begin, std::span<std::byte> out) {
  return Take(object_piece_[object], begin, out);
}

bool AtSaveCopies::Take(uint32_t piece, uint64_t begin, std::span<std::byte> out) {
  if (piece == kNone) return false;
  while (begin >= pieces_[piece].bytes && !out.empty()) begin -= pieces_[piece++].bytes;
  while (!out.empty()) {
    const Piece& from = pieces_[piece++];
    const uint64_t bytes = std::min<uint64_t>(out.size(), from.bytes - begin);
    std::memcpy(out.data(), from.data + begin, bytes);
    Consume(from.block, bytes);
    out = out.subspan(bytes);
    begin = 0;
  }
  return true;
}

void AtSaveCopies::Consume(uint32_t index, uint64_t bytes) {
  Block& block = *blocks_[index];
  if (block.outstanding.fetch_sub(bytes, std::memory_order_acq_rel) == bytes) {
    pool_.Release(io::WindowPool::Use::kAtSave, block.window.index);
  }
}

}  // namespace dsckpt
