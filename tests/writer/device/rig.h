#ifndef DSCKPT_TESTS_WRITER_DEVICE_RIG_H_
#define DSCKPT_TESTS_WRITER_DEVICE_RIG_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dsckpt/device.h"

/// A device as the tests of capture and load see it: the same tests run on a simulated one
/// everywhere, and on a GPU where there is one.
class Rig {
 public:
  virtual ~Rig() = default;
  virtual int count() const = 0;
  virtual void* Allocate(int device, size_t bytes) = 0;
  virtual void Free(int device, void* memory) = 0;
  virtual dsckpt::Stream NewStream(int device) = 0;
  virtual void DeleteStream(int device, dsckpt::Stream stream) = 0;
  /// Sets every byte, in the stream.
  virtual void FillLater(int device, dsckpt::Stream stream, void* memory, size_t bytes,
                         uint8_t value) = 0;
  /// What the stream gets after this call waits until the returned function is called.
  virtual std::function<void()> Hold(int device, dsckpt::Stream stream) = 0;
  virtual void Synchronize(int device, dsckpt::Stream stream) = 0;
  virtual void Upload(int device, void* to, std::span<const std::byte> from) = 0;
  virtual std::vector<std::byte> Download(int device, const void* from, size_t bytes) = 0;
};

/// The simulated rig, or the GPU one ("cuda"): null where there is none. The library uses it as
/// long as it lives.
std::unique_ptr<Rig> MakeRig(const std::string& name);

/// Device memory, freed with the object.
class Block {
 public:
  Block(Rig& rig, int device, size_t bytes)
      : rig_(rig), device_(device), bytes_(bytes), data_(rig.Allocate(device, bytes)) {}
  ~Block() { rig_.Free(device_, data_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  void* data() const { return data_; }
  std::byte* at(size_t offset) const { return static_cast<std::byte*>(data_) + offset; }
  size_t bytes() const { return bytes_; }
  int device() const { return device_; }

 private:
  Rig& rig_;
  int device_;
  size_t bytes_;
  void* data_;
};

/// A stream, deleted with the object.
class Queue {
 public:
  Queue(Rig& rig, int device) : rig_(rig), device_(device), stream_(rig.NewStream(device)) {}
  ~Queue() { rig_.DeleteStream(device_, stream_); }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  dsckpt::Stream get() const { return stream_; }

 private:
  Rig& rig_;
  int device_;
  dsckpt::Stream stream_;
};

#endif  // DSCKPT_TESTS_WRITER_DEVICE_RIG_H_
