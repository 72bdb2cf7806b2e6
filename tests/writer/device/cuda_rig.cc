#include <memory>
#include <string>

#include "tests/support/catch.h"
#include "tests/writer/device/fake_device.h"
#include "tests/writer/device/rig.h"

#if DSCKPT_WITH_CUDA

#include <cuda_runtime_api.h>

#include <atomic>
#include <thread>

using namespace dsckpt;

namespace {

void Must(cudaError_t error) {
  INFO(cudaGetErrorString(error));
  REQUIRE(error == cudaSuccess);
}

class CudaRig final : public Rig {
 public:
  explicit CudaRig(int count) : count_(count) {}
  int count() const override { return count_; }
  void* Allocate(int device, size_t bytes) override {
    Must(cudaSetDevice(device));
    void* memory = nullptr;
    Must(cudaMalloc(&memory, bytes + 1));
    return memory;
  }
  void Free(int device, void* memory) override {
    Must(cudaSetDevice(device));
    Must(cudaFree(memory));
  }
  Stream NewStream(int device) override {
    Must(cudaSetDevice(device));
    cudaStream_t stream = nullptr;
    Must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
  }
  void DeleteStream(int device, Stream stream) override {
    Must(cudaSetDevice(device));
    Must(cudaStreamDestroy(static_cast<cudaStream_t>(stream)));
  }
  void FillLater(int device, Stream stream, void* memory, size_t bytes, uint8_t value) override {
    Must(cudaSetDevice(device));
    Must(cudaMemsetAsync(memory, value, bytes, static_cast<cudaStream_t>(stream)));
  }
  std::function<void()> Hold(int device, Stream stream) override {
    Must(cudaSetDevice(device));
    auto open = std::make_shared<std::atomic<bool>>(false);
    // The driver keeps the copy that the callback takes over.
    auto* const kept = new std::shared_ptr<std::atomic<bool>>(open);
    Must(cudaLaunchHostFunc(
        static_cast<cudaStream_t>(stream),
        [](void* data) {
          const std::unique_ptr<std::shared_ptr<std::atomic<bool>>> gate(
              static_cast<std::shared_ptr<std::atomic<bool>>*>(data));
          (*gate)->wait(false);
        },
        kept));
    return [open] {
      open->store(true);
      open->notify_all();
    };
  }
  void Synchronize(int device, Stream stream) override {
    Must(cudaSetDevice(device));
    Must(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
  }
  void Upload(int device, void* to, std::span<const std::byte> from) override {
    Must(cudaSetDevice(device));
    Must(cudaMemcpy(to, from.data(), from.size(), cudaMemcpyHostToDevice));
    Must(cudaDeviceSynchronize());
  }
  std::vector<std::byte> Download(int device, const void* from, size_t bytes) override {
    Must(cudaSetDevice(device));
    std::vector<std::byte> out(bytes);
    Must(cudaMemcpy(out.data(), from, bytes, cudaMemcpyDeviceToHost));
    return out;
  }

 private:
  int count_;
};

std::unique_ptr<Rig> MakeCudaRig() {
  if (!DeviceSupport().ok()) return nullptr;
  int count = 0;
  Must(cudaGetDeviceCount(&count));
  return std::make_unique<CudaRig>(count);
}

}  // namespace

#else

std::unique_ptr<Rig> MakeCudaRig() { return nullptr; }

#endif

std::unique_ptr<Rig> MakeRig(const std::string& name) {
  if (name == "simulated") return std::make_unique<FakeRig>();
  auto rig = MakeCudaRig();
  if (rig == nullptr) WARN("skipped: " << dsckpt::DeviceSupport().ToString());
  return rig;
}
