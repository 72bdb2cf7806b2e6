#include "io/device.h"

#include <atomic>
#include <memory>

#include "io/device_cuda.h"

namespace dsckpt {
namespace io {
namespace {

std::atomic<DeviceBackend*> replaced{nullptr};

Result<DeviceBackend*> Real() {
#if DSCKPT_WITH_CUDA
  return CudaDevices();
#else
  return Status(StatusCode::kUnsupported,
                "this build of dsckpt cannot reach GPU memory: configure it with "
                "-DDSCKPT_WITH_CUDA=ON");
#endif
}

}  // namespace

Result<DeviceBackend*> Devices() {
  if (DeviceBackend* backend = replaced) return backend;
  return Real();
}

void ReplaceDevices(DeviceBackend* backend) { replaced = backend; }

Status ReadDevice(int device, Stream stream, const void* from, std::span<std::byte> out) {
  DSCKPT_ASSIGN_OR_RETURN(DeviceBackend* const backend, Devices());
  if (device == kDeviceOfPointer) {
    DSCKPT_ASSIGN_OR_RETURN(device, backend->DeviceOf(from));
  }
  DSCKPT_RETURN_IF_ERROR(backend->CheckNotCapturing(device, stream));
  DSCKPT_ASSIGN_OR_RETURN(const DeviceBackend::Event event, backend->CreateEvent(device));
  Status status = backend->CopyToHost(device, stream, out, from);
  if (status.ok()) {
    status = backend->Record(device, event, stream);
    if (status.ok()) status = backend->Synchronize(device, event);
    // The caller may free `out` now.
    if (!status.ok()) static_cast<void>(backend->Drain(device, stream));
  }
  backend->DestroyEvent(device, event);
  return status;
}

}  // namespace io

Status DeviceSupport() { return io::Devices().status(); }

}  // namespace dsckpt
