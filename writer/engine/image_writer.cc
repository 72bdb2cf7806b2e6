#include "writer/engine/image_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "dsckpt/limits.h"
#include "writer/engine/save_plan.h"

namespace dsckpt {

void WriteWindow(SaveOutputs& outputs, SaveProgress& progress, EngineResources& resources,
                 FilledWindow filled) {
  const auto [use, window, bytes, file_offset] = filled;
  if (!progress.AwaitFile()) {
    resources.pool->Release(use, window.index);
    return;
  }
  const uint64_t padded = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  std::memset(window.bytes.data() + bytes, 0, padded - bytes);
  progress.AddPending();
  // The save outlives its pending work: commit waits for it.
  outputs.file->Write(
      *resources.queue, window.bytes.first(padded), file_offset, window.index,
      [&progress, &resources, use = use, index = window.index, padded](Status status) {
        resources.pool->Release(use, index);
        if (status.ok()) {
          progress.counters().flushed_bytes += padded;
          resources.counters.flushed_bytes += padded;
        } else {
          progress.Fail(std::move(status));
        }
        progress.FinishPending();
      });
}

ImageWriter::~ImageWriter() {
  if (window_.index >= 0) resources_.pool->Release(use_, window_.index);
}

std::span<std::byte> ImageWriter::Room() {
  if (window_.index < 0) {
    uint64_t waited_ns = 0;
    window_ = resources_.pool->Acquire(use_, &waited_ns);
    progress_.AddWindowStall(waited_ns);
    std::memcpy(window_.bytes.data(), parked_.data(), parked_bytes_);
    used_ = std::exchange(parked_bytes_, 0);
  }
  return window_.bytes.subspan(used_);
}

void ImageWriter::Advance(uint64_t bytes) {
  used_ += bytes;
  position_ += bytes;
  auto& total = progress_.counters().total_bytes;
  if (position_ > total) total = position_;
  if (used_ == window_.bytes.size()) Flush();
}

void ImageWriter::Append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto room = Room();
    const uint64_t part = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), part);
    Advance(part);
    bytes = bytes.subspan(part);
  }
}

void ImageWriter::Align(uint64_t alignment) {
  uint64_t gap = (alignment - position_ % alignment) % alignment;
  while (gap > 0) {
    const auto room = Room();
    const uint64_t part = std::min<uint64_t>(room.size(), gap);
    std::memset(room.data(), 0, part);
    Advance(part);
    gap -= part;
  }
}

void ImageWriter::Flush() {
  if (window_.index < 0) return;
  const auto window = std::exchange(window_, {});
  WriteWindow(outputs_, progress_, resources_, {use_, window, used_, position_ - used_});
}

void ImageWriter::Park() {
  const auto use = std::exchange(use_, io::WindowPool::Use::kPlaced);
  if (window_.index < 0) return;
  parked_bytes_ = used_ % kPageBytes;
  used_ -= parked_bytes_;
  std::memcpy(parked_.data(), window_.bytes.data() + used_, parked_bytes_);
  const auto window = std::exchange(window_, {});
  if (used_ == 0) return resources_.pool->Release(use, window.index);
  WriteWindow(outputs_, progress_, resources_,
              {use, window, used_, position_ - parked_bytes_ - used_});
}

}  // namespace dsckpt
