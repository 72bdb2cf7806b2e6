#ifndef DSCKPT_TESTS_WRITER_DEVICE_FAKE_DEVICE_H_
#define DSCKPT_TESTS_WRITER_DEVICE_FAKE_DEVICE_H_

#include "tests/writer/device/rig.h"

/// Two simulated devices, in host memory: each stream is a thread, so that a copy which does not
/// wait for what it must wait for reads the wrong bytes, and thread sanitizers see it.
class FakeRig final : public Rig {
 public:
  FakeRig();
  ~FakeRig() override;
  int count() const override { return 2; }
  void* Allocate(int device, size_t bytes) override;
  void Free(int device, void* memory) override;
  dsckpt::Stream NewStream(int device) override;
  void DeleteStream(int device, dsckpt::Stream stream) override;
  void FillLater(int device, dsckpt::Stream stream, void* memory, size_t bytes,
                 uint8_t value) override;
  std::function<void()> Hold(int device, dsckpt::Stream stream) override;
  void Synchronize(int device, dsckpt::Stream stream) override;
  void Upload(int device, void* to, std::span<const std::byte> from) override;
  std::vector<std::byte> Download(int device, const void* from, size_t bytes) override;

  void RefuseRegistration();
  /// Of the library; tests get theirs.
  void RefuseMemory();
  void FailCopies(bool fail);
  void SetCapturing(dsckpt::Stream stream, bool capturing);
  /// From the given call on (0: the next one) everything fails that creates, records or waits for
  /// an event or copies; negative: nothing does. Draining never fails.
  void FailFrom(int call);
  /// Called by whatever is about to wait on the host. Set while no engine or load is at work.
  void OnHostWait(std::function<void()> call);
  /// Copies wait, after the next `copies` of them, until the returned function is called.
  std::function<void()> HoldCopiesAfter(int copies);
  /// Enqueued and not done.
  int copies_in_flight() const;
  /// Ranges that were ever registered.
  std::vector<std::span<std::byte>> registered() const;
  /// Pieces copied, by gather kernels too.
  int copies() const;
  int gathers() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

#endif  // DSCKPT_TESTS_WRITER_DEVICE_FAKE_DEVICE_H_
