#include "bench/switches.h"

#include <cerrno>
#include <utility>

#include "io/syscalls.h"

namespace dsckpt::bench {
namespace {

/// Passes everything on but what `ideas` lacks.
class Limited final : public io::DeviceBackend {
 public:
  Limited(io::DeviceBackend& real, const DeviceIdeas& ideas) : real_(real), ideas_(ideas) {}

  const char* name() const override { return real_.name(); }
  Result<int> DeviceOf(const void* data) override { return real_.DeviceOf(data); }
  Status RegisterHost(int device, std::span<std::byte> memory) override {
    if (ideas_.pinned) return real_.RegisterHost(device, memory);
    return Status(StatusCode::kUnsupported, "turned off");
  }
  void UnregisterHost(int device, std::span<std::byte> memory) override {
    real_.UnregisterHost(device, memory);
  }
  Result<std::byte*> Allocate(int device, uint64_t bytes) override {
    return real_.Allocate(device, bytes);
  }
  void Free(int device, std::byte* memory) override { real_.Free(device, memory); }
  Result<Stream> CreateStream(int device, bool urgent) override {
    return real_.CreateStream(device, urgent);
  }
  void DestroyStream(int device, Stream stream) override { real_.DestroyStream(device, stream); }
  Result<Event> CreateEvent(int device) override { return real_.CreateEvent(device); }
  void DestroyEvent(int device, Event event) override { real_.DestroyEvent(device, event); }
  Status Record(int device, Event event, Stream stream) override {
    return real_.Record(device, event, stream);
  }
  Status Wait(int device, Stream stream, Event event) override {
    return real_.Wait(device, stream, event);
  }
  Status Synchronize(int device, Event event) override { return real_.Synchronize(device, event); }
  Status Drain(int device, Stream stream) override { return real_.Drain(device, stream); }
  Status CheckNotCapturing(int device, Stream stream) override {
    return real_.CheckNotCapturing(device, stream);
  }
  Status CopyToHost(int device, Stream stream, std::span<std::byte> to, const void* from) override {
    return real_.CopyToHost(device, stream, to, from);
  }
  Status CopyToDevice(int device, Stream stream, void* to,
                      std::span<const std::byte> from) override {
    return real_.CopyToDevice(device, stream, to, from);
  }
  Status CopyAllToHost(int device, Stream stream, std::span<const Piece> pieces) override {
    return real_.CopyAllToHost(device, stream, pieces);
  }
  Status CopyAllOnDevice(int device, Stream stream, std::span<const Piece> pieces) override {
    return real_.CopyAllOnDevice(device, stream, pieces);
  }
  Status Gather(int device, Stream stream, std::span<const Piece> pieces) override {
    if (ideas_.gather) return real_.Gather(device, stream, pieces);
    for (const Piece& piece : pieces) {
      DSCKPT_RETURN_IF_ERROR(real_.CopyToHost(device, stream, {piece.to, piece.bytes}, piece.from));
    }
    return Status();
  }

 private:
  io::DeviceBackend& real_;
  const DeviceIdeas ideas_;
};

const io::Syscalls& Unregistered() {
  static const io::Syscalls table = [] {
    io::Syscalls calls = io::RealSyscalls();
    calls.ring_register = [](void*, const void*, unsigned) { return -ENOMEM; };
    return calls;
  }();
  return table;
}

}  // namespace

WithoutRegisteredBuffers::WithoutRegisteredBuffers() { io::ReplaceSyscalls(&Unregistered()); }
WithoutRegisteredBuffers::~WithoutRegisteredBuffers() { io::ReplaceSyscalls(&io::RealSyscalls()); }

dsckpt::Result<LimitedDevices> LimitedDevices::Create(const DeviceIdeas& ideas) {
  DSCKPT_ASSIGN_OR_RETURN(io::DeviceBackend* const real, io::Devices());
  return LimitedDevices(std::make_unique<Limited>(*real, ideas));
}
void LimitedDevices::Use() const { io::ReplaceDevices(backend_.get()); }
void LimitedDevices::Restore() { io::ReplaceDevices(nullptr); }

}  // namespace dsckpt::bench
