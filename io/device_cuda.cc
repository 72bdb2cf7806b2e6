#if DSCKPT_WITH_CUDA

#include "io/device_cuda.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "base/mutex.h"

namespace dsckpt::io {
namespace {

constexpr int kMaxDevices = 64;

/// The few calls that the runtime library has no equivalent for: it can select a device only by
/// making a context there, also when a thread's former device is selected again. With them a
/// thread's context is changed and restored exactly, and only contexts that exist are used.
struct Driver {
  CUresult (*init)(unsigned) = nullptr;
  CUresult (*device)(CUdevice*, int) = nullptr;
  CUresult (*primary_state)(CUdevice, unsigned*, int*) = nullptr;
  CUresult (*retain)(CUcontext*, CUdevice) = nullptr;
  CUresult (*push)(CUcontext) = nullptr;
  CUresult (*pop)(CUcontext*) = nullptr;
  CUresult (*attributes)(unsigned, CUpointer_attribute*, void**, CUdeviceptr) = nullptr;

  bool Load() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) return false;
    const auto find = [&](auto& call, const char* name) {
      call = reinterpret_cast<std::remove_reference_t<decltype(call)>>(dlsym(library, name));
      return call != nullptr;
    };
    return find(init, "cuInit") && find(device, "cuDeviceGet") &&
           find(primary_state, "cuDevicePrimaryCtxGetState") &&
           find(retain, "cuDevicePrimaryCtxRetain") && find(push, "cuCtxPushCurrent_v2") &&
           find(pop, "cuCtxPopCurrent_v2") && find(attributes, "cuPointerGetAttributes") &&
           init(0) == CUDA_SUCCESS;
  }
};

Status Check(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) return Status();
  static_cast<void>(cudaGetLastError());  // An error that does not last must not surface elsewhere.
  const StatusCode code =
      error == cudaErrorMemoryAllocation ? StatusCode::kOutOfMemory : StatusCode::kIoError;
  return Status(code, std::string("cannot ") + doing + ": CUDA says " + cudaGetErrorName(error) +
                          " (" + cudaGetErrorString(error) + ")");
}

class CudaBackend final : public DeviceBackend {
 public:
  explicit CudaBackend(const Driver& driver) : driver_(driver) {}

  const char* name() const override { return "CUDA"; }

  Result<int> DeviceOf(const void* data) override {
    // Unlike cudaPointerGetAttributes, needs no current context.
    CUmemorytype type{};
    int device = kHostMemory;
    std::array<CUpointer_attribute, 2> wanted = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    std::array<void*, 2> found = {&type, &device};
    const CUresult result = driver_.attributes(wanted.size(), wanted.data(), found.data(),
                                               reinterpret_cast<CUdeviceptr>(data));
    if (result == CUDA_SUCCESS && type == CU_MEMORYTYPE_DEVICE) return device;
    return Status(StatusCode::kInvalidArgument, "the pointer is not to device memory");
  }

  Status RegisterHost(int device, std::span<std::byte> memory) override {
    return In(device, [&] {
      return Check(cudaHostRegister(memory.data(), memory.size(),
                                    cudaHostRegisterPortable | cudaHostRegisterMapped),
                   "register host memory");
    });
  }
  void UnregisterHost(int device, std::span<std::byte> memory) override {
    static_cast<void>(
        In(device, [&] { return Check(cudaHostUnregister(memory.data()), "unregister"); }));
  }

  Result<std::byte*> Allocate(int device, uint64_t bytes) override {
    void* memory = nullptr;
    DSCKPT_RETURN_IF_ERROR(
        In(device, [&] { return Check(cudaMalloc(&memory, bytes), "allocate device memory"); }));
    return static_cast<std::byte*>(memory);
  }
  void Free(int device, std::byte* memory) override {
    static_cast<void>(In(device, [&] { return Check(cudaFree(memory), "free device memory"); }));
  }

  Result<Stream> CreateStream(int device, bool urgent) override {
    cudaStream_t stream = nullptr;
    const Status status = In(device, [&] {
      int lowest = 0, highest = 0;
      cudaError_t error = cudaDeviceGetStreamPriorityRange(&lowest, &highest);
      if (error == cudaSuccess) {
        error =
            cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, urgent ? highest : lowest);
      }
      return Check(error, "create a stream");
    });
    if (!status.ok()) return status;
    return static_cast<Stream>(stream);
  }
  void DestroyStream(int device, Stream stream) override {
    static_cast<void>(
        In(device, [&] { return Check(cudaStreamDestroy(Native(stream)), "destroy a stream"); }));
  }

  Result<Event> CreateEvent(int device) override {
    cudaEvent_t event = nullptr;
    DSCKPT_RETURN_IF_ERROR(In(device, [&] {
      return Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync),
                   "create an event");
    }));
    return static_cast<Event>(event);
  }
  void DestroyEvent(int device, Event event) override {
    static_cast<void>(In(device, [&] {
      return Check(cudaEventDestroy(static_cast<cudaEvent_t>(event)), "destroy an event");
    }));
  }

  Status Record(int device, Event event, Stream stream) override {
    return In(device, [&] {
      return Check(cudaEventRecord(static_cast<cudaEvent_t>(event), Native(stream)),
                   "record an event");
    });
  }
  Status Wait(int device, Stream stream, Event event) override {
    return In(device, [&] {
      return Check(cudaStreamWaitEvent(Native(stream), static_cast<cudaEvent_t>(event), 0),
                   "make a stream wait");
    });
  }
  Status Synchronize(int device, Event event) override {
    return In(device, [&] {
      return Check(cudaEventSynchronize(static_cast<cudaEvent_t>(event)), "wait for copies");
    });
  }

  Status Drain(int device, Stream stream) override {
    return In(device,
              [&] { return Check(cudaStreamSynchronize(Native(stream)), "wait for a stream"); });
  }

  Status CheckNotCapturing(int device, Stream stream) override {
    return In(device, [&] {
      cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
      const cudaError_t error = cudaStreamIsCapturing(Native(stream), &state);
      if (error == cudaErrorStreamCaptureImplicit ||
          (error == cudaSuccess && state != cudaStreamCaptureStatusNone)) {
        static_cast<void>(cudaGetLastError());
        return Status(StatusCode::kFailedPrecondition,
                      "a graph is being captured from this stream: save and fence outside of the "
                      "capture");
      }
      return Check(error, "ask whether a stream is being captured");
    });
  }

  Status CopyToHost(int device, Stream stream, std::span<std::byte> to, const void* from) override {
    return In(device, [&] {
      return Check(
          cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, Native(stream)),
          "copy from the device");
    });
  }
  Status CopyToDevice(int device, Stream stream, void* to,
                      std::span<const std::byte> from) override {
    return In(device, [&] {
      return Check(
          cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice, Native(stream)),
          "copy to the device");
    });
  }

  Status CopyAllToHost(int device, Stream stream, std::span<const Piece> pieces) override {
    return In(device, [&] {
#if CUDART_VERSION >= 13000
      // One submission: a stream takes about a thousand commands before the host has to wait.
      if (batches_ && pieces.size() > 1) {
        const cudaError_t error = CopyBatch(stream, pieces);
        if (error == cudaSuccess) return Status();
        static_cast<void>(cudaGetLastError());
        // Where batches take pinned memory alone, one by one all can be copied; an error that lasts
        // comes back there.
        if (error == cudaErrorCallRequiresNewerDriver || error == cudaErrorNotSupported) {
          batches_ = false;
        }
      }
#endif
      for (const Piece& piece : pieces) {
        DSCKPT_RETURN_IF_ERROR(Check(cudaMemcpyAsync(piece.to, piece.from, piece.bytes,
                                                     cudaMemcpyDeviceToHost, Native(stream)),
                                     "copy from the device"));
      }
      return Status();
    });
  }

  Status CopyAllOnDevice(int device, Stream stream, std::span<const Piece> pieces) override {
    return In(device, [&] {
      for (const Piece& piece : pieces) {
        DSCKPT_RETURN_IF_ERROR(Check(cudaMemcpyAsync(piece.to, piece.from, piece.bytes,
                                                     cudaMemcpyDeviceToDevice, Native(stream)),
                                     "copy on the device"));
      }
      return Status();
    });
  }

  Status Gather(int device, Stream stream, std::span<const Piece> pieces) override {
    return In(device, [&] {
      GatherBatch batch;
      while (!pieces.empty()) {
        batch.count = 0;
        while (batch.count < GatherBatch::kMaxPieces && batch.count < pieces.size()) {
          const Piece& piece = pieces[batch.count];
          // Registered memory has the same address on both sides wherever the library runs
          // (64-bit Linux, unified addressing).
          batch.from[batch.count] = piece.from;
          batch.to[batch.count] = piece.to;
          batch.bytes[batch.count] = static_cast<uint32_t>(piece.bytes);
          ++batch.count;
        }
        DSCKPT_RETURN_IF_ERROR(Check(static_cast<cudaError_t>(LaunchGather(batch, stream)),
                                     "launch the gather kernel"));
        pieces = pieces.subspan(batch.count);
      }
      return Status();
    });
  }

 private:
  static cudaStream_t Native(Stream stream) { return static_cast<cudaStream_t>(stream); }

#if CUDART_VERSION >= 13000
  static cudaError_t CopyBatch(Stream stream, std::span<const Piece> pieces) {
    std::vector<void*> to;
    std::vector<const void*> from;
    std::vector<size_t> bytes;
    for (const Piece& piece : pieces) {
      to.push_back(piece.to);
      from.push_back(piece.from);
      bytes.push_back(piece.bytes);
    }
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    size_t first = 0;
    return cudaMemcpyBatchAsync(to.data(), from.data(), bytes.data(), to.size(), &attributes,
                                &first, 1, Native(stream));
  }
#endif

  /// Runs `call` in the device's context, in a mode in which nothing it calls breaks a capture
  /// that another thread has begun in CUDA's default mode.
  template <typename Call>
  Status In(int device, Call call) {
    DSCKPT_ASSIGN_OR_RETURN(const CUcontext context, Context(device));
    if (driver_.push(context) != CUDA_SUCCESS) {
      return Status(StatusCode::kIoError, "cannot use the context of GPU " +
                                              std::to_string(device) + ": it was destroyed");
    }
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    Status status = call();
    cudaThreadExchangeStreamCaptureMode(&mode);
    CUcontext ours = nullptr;
    driver_.pop(&ours);
    return status;
  }

  /// The device's primary context, which the runtime shares with everyone in the process. Never
  /// made here: memory on a device implies that it exists.
  Result<CUcontext> Context(int device) {
    if (device < 0 || device >= kMaxDevices) return NoDevice(device);
    std::atomic<CUcontext>& slot = contexts_[static_cast<size_t>(device)];
    if (CUcontext context = slot.load(std::memory_order_acquire)) return context;
    MutexLock lock(mutex_);
    CUdevice handle = 0;
    unsigned flags = 0;
    int active = 0;
    if (driver_.device(&handle, device) != CUDA_SUCCESS) return NoDevice(device);
    if (driver_.primary_state(handle, &flags, &active) != CUDA_SUCCESS || active == 0) {
      return Status(StatusCode::kInvalidArgument, "this process uses no GPU " +
                                                      std::to_string(device) +
                                                      " yet, so no tensor can lie there");
    }
    CUcontext context = nullptr;
    if (driver_.retain(&context, handle) != CUDA_SUCCESS) return NoDevice(device);
    slot.store(context, std::memory_order_release);
    return context;
  }

  static Status NoDevice(int device) {
    return Status(StatusCode::kInvalidArgument, "there is no GPU " + std::to_string(device));
  }

  const Driver driver_;
  std::atomic<bool> batches_{true};
  Mutex mutex_;
  std::array<std::atomic<CUcontext>, kMaxDevices> contexts_ = {};
};

Result<std::unique_ptr<CudaBackend>> Make() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver) {
    return Status(StatusCode::kUnsupported,
                  "no GPU can be used here: the NVIDIA driver is missing or older than this build "
                  "needs");
  }
  if (error != cudaSuccess || count == 0) {
    return Status(StatusCode::kUnsupported,
                  std::string("no GPU can be used here: CUDA says ") +
                      cudaGetErrorString(error == cudaSuccess ? cudaErrorNoDevice : error));
  }
  Driver driver;
  if (!driver.Load()) {
    return Status(StatusCode::kUnsupported,
                  "no GPU can be used here: libcuda.so.1 lacks calls that this build needs");
  }
  return std::make_unique<CudaBackend>(driver);
}

}  // namespace

Result<DeviceBackend*> CudaDevices() {
  // Never destroyed: engines that outlive main() may still use it.
  static const auto* const backend = new Result<std::unique_ptr<CudaBackend>>(Make());
  if (!backend->ok()) return backend->status();
  return static_cast<DeviceBackend*>(backend->value().get());
}

}  // namespace dsckpt::io

#endif  // DSCKPT_WITH_CUDA
