#ifndef DSCKPT_WRITER_ENGINE_AT_SAVE_COPIES_H_
#define DSCKPT_WRITER_ENGINE_AT_SAVE_COPIES_H_

// Copies made inside Save().

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dsckpt/provider.h"
#include "io/pool.h"
#include "state/file_layout.h"

namespace dsckpt {

/// The at-save copies of one save: bytes copied inside Save() into pool windows, at most half the
/// pool. Filled completely before the save is handed to the stages, immutable afterwards, so a
/// window that a stage holds never waits for a Save() call. What does not fit is left to the
/// stages, and Save() waits until they have read it.
class AtSaveCopies {
 public:
  explicit AtSaveCopies(io::WindowPool& pool) : pool_(pool) {}
  ~AtSaveCopies() { Clear(); }

  /// Enqueues the copy of a part of a device tensor; the bytes are there when the caller says so.
  using DeviceCopy =
      std::function<void(SourceIndex tensor, uint64_t begin, std::span<std::byte> out)>;
  /// Copies the at-save items of `data` in file order. Returns the bytes left to the stages.
  uint64_t Copy(const Description::Data& data, const FileLayout& layout, uint64_t* waited_ns,
                const DeviceCopy& device_copy);

  bool HoldsTensor(TensorOrdinal tensor) const { return tensor_piece_[tensor] != kNone; }

  /// Copies [begin, begin + out.size()) of an item copied here into `out`; false when it is not
  /// here. Every byte must be taken once: a block returns to the pool when all of it was taken.
  bool TakeTensor(TensorOrdinal tensor, uint64_t begin, std::span<std::byte> out);
  bool TakeObject(ObjectOrdinal object, uint64_t begin, std::span<std::byte> out);

  /// Gives back the blocks that a stopped save did not take. REQUIRES: no Take() is running.
  void Clear();

  uint64_t bytes() const { return bytes_; }
  /// Of these, those that devices copy.
  uint64_t device_bytes() const { return device_bytes_; }

 private:
  struct Block {
    io::WindowPool::Window window;
    std::atomic<uint64_t> outstanding{0};
  };
  struct Piece {
    const std::byte* data;
    uint64_t bytes;
    uint32_t block;
  };
  /// Room for up to `wanted` bytes, contiguous.
  std::span<std::byte> Room(uint64_t wanted, uint64_t* waited_ns);
  bool Fits(uint64_t bytes) const;
  /// False when there is no room for the item.
  template <typename Fill>
  bool CopyItem(uint64_t bytes, uint32_t* first_piece, uint64_t* waited_ns, Fill fill);
  bool Take(uint32_t first_piece, uint64_t begin, std::span<std::byte> out);
  void Consume(uint32_t block, uint64_t bytes);

  io::WindowPool& pool_;
  std::vector<std::unique_ptr<Block>> blocks_;
  uint64_t used_ = 0;  // In the newest block.
  std::vector<Piece> pieces_;
  static constexpr uint32_t kNone = ~uint32_t{0};
  // The first piece of each item, a position in pieces_; kNone: the item is not here.
  OrdinalVector<TensorOrdinal, uint32_t> tensor_piece_;
  OrdinalVector<ObjectOrdinal, uint32_t> object_piece_;
  uint64_t bytes_ = 0, device_bytes_ = 0;
};

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_ENGINE_AT_SAVE_COPIES_H_
