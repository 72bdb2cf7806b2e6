// A training loop on a GPU that saves while it trains. The update kernel changes parameters and
// moments in place each step; every checkpoint must hold exactly one step's state, although it is
// read behind the next steps' forward and backward passes. Run with the default stream and with a
// stream of its own, with a staging pool that holds the state and with one that does not.
//
//   train_cuda [DIRECTORY]     default: the current one
//
// Exit status 0: every file was exact; 77: there is no GPU.

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "dsckpt/dsckpt.h"

namespace {

constexpr int64_t kParameters = 8'000'003;  // Odd sizes are no special case.
constexpr int kSteps = 12, kEvery = 3;

// What a value must be after `step` updates. Exact in float: a checkpoint can be checked bit by bit.
__host__ __device__ float Expected(int64_t i, int step) {
  return static_cast<float>(i % 4096 + step);
}

__global__ void Initialize(float* p, float* m, float* v, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  p[i] = m[i] = v[i] = Expected(i, 0);
}

__global__ void Update(float* p, float* m, float* v, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  p[i] += 1;
  m[i] += 1;
  v[i] += 1;
}

// Reads what the update writes, and writes elsewhere: copies of the state can run beside it.
__global__ void ForwardBackward(const float* p, float* gradients, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = p[i];
  for (int k = 0; k < 2000; ++k) x = x * 0.999f + 0.001f;
  gradients[i] = x;
}

bool Failed(const dsckpt::Status& status, const char* doing) {
  if (status.ok()) return false;
  std::fprintf(stderr, "train_cuda: %s: %s\n", doing, status.ToString().c_str());
  return true;
}

bool Failed(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) return false;
  std::fprintf(stderr, "train_cuda: %s: %s\n", doing, cudaGetErrorString(error));
  return true;
}

// Parameters and Adam's moments in device memory.
struct Model {
  float *p = nullptr, *m = nullptr, *v = nullptr, *gradients = nullptr;

  bool Allocate() {
    for (float** array : {&p, &m, &v, &gradients}) {
      if (Failed(cudaMalloc(array, kParameters * sizeof(float)), "allocate")) return false;
    }
    return true;
  }
  ~Model() {
    for (float* array : {p, m, v, gradients}) cudaFree(array);
  }
};

constexpr int kThreads = 256;
constexpr int kBlocks = static_cast<int>((kParameters + kThreads - 1) / kThreads);

std::string PathOf(const std::string& directory, int step) {
  return directory + "/train_cuda." + std::to_string(step) + ".dsckpt";
}

// True when all three tensors of the file are those after `step` updates.
bool CheckFile(const std::string& path, int step) {
  const auto file = dsckpt::File::Open(path);
  if (Failed(file.status(), "open")) return false;
  const auto stored = file->Attribute("step");
  if (Failed(stored.status(), "step") || std::get<int64_t>(stored.value()) != step) return false;
  for (const char* name : {"params", "adam/m", "adam/v"}) {
    const auto view = file->View(name);
    if (Failed(view.status(), name)) return false;
    const auto values = view->As<float>();
    if (Failed(values.status(), name)) return false;
    for (int64_t i = 0; i < kParameters; ++i) {
      if (values.value()[i] == Expected(i, step)) continue;
      std::fprintf(stderr, "train_cuda: %s: %s[%lld] is %g, not %g\n", path.c_str(), name,
                   static_cast<long long>(i), values.value()[i], Expected(i, step));
      return false;
    }
  }
  return true;
}

// One run; leaves its checkpoints behind.
bool Train(Model& model, cudaStream_t stream, uint64_t pool_bytes, const std::string& directory) {
  auto engine = dsckpt::Engine::Create({.pool_bytes = pool_bytes});
  if (Failed(engine.status(), "create the engine")) return false;
  int64_t step = 0;
  dsckpt::State state;  // The same object saves and restores.
  state.AddDeviceTensor("params", model.p, dsckpt::kF32, {kParameters}, stream);
  state.AddDeviceTensor("adam/m", model.m, dsckpt::kF32, {kParameters}, stream);
  state.AddDeviceTensor("adam/v", model.v, dsckpt::kF32, {kParameters}, stream);
  state.AddAttribute("step", &step);

  Initialize<<<kBlocks, kThreads, 0, stream>>>(model.p, model.m, model.v, kParameters);
  for (step = 1; step <= kSteps; ++step) {
    ForwardBackward<<<kBlocks, kThreads, 0, stream>>>(model.p, model.gradients, kParameters);
    // Before the update: the device waits until pending saves have read the state, not the host.
    if (Failed(engine.value()->FenceOnStream(stream), "fence")) return false;
    Update<<<kBlocks, kThreads, 0, stream>>>(model.p, model.m, model.v, kParameters);
    if (step % kEvery != 0) continue;
    const auto save = engine.value()->Save(PathOf(directory, static_cast<int>(step)), state);
    if (Failed(save.status(), "save")) return false;
  }
  if (Failed(engine.value()->WaitDurable(), "wait")) return false;

  // Back to the first checkpoint, straight into device memory.
  const auto file = dsckpt::File::Open(PathOf(directory, kEvery));
  if (Failed(file.status(), "open") || Failed(file->Restore(state), "restore")) return false;
  float last = 0;
  if (Failed(cudaMemcpy(&last, model.p + kParameters - 1, sizeof last, cudaMemcpyDeviceToHost),
             "read back")) {
    return false;
  }
  return step == kEvery && last == Expected(kParameters - 1, kEvery);
}

bool Run(const char* what, cudaStream_t stream, uint64_t pool_bytes, const std::string& directory) {
  Model model;
  bool good = model.Allocate() && Train(model, stream, pool_bytes, directory);
  for (int step = kEvery; step <= kSteps; step += kEvery) {
    good = good && CheckFile(PathOf(directory, step), step);
    std::remove(PathOf(directory, step).c_str());
  }
  std::printf("%s, pool %llu MiB: %s\n", what,
              static_cast<unsigned long long>(pool_bytes / dsckpt::kMiB),
              good ? "every checkpoint holds exactly one step" : "FAILED");
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string directory = argc > 1 ? argv[1] : ".";
  if (const auto support = dsckpt::DeviceSupport(); !support.ok()) {
    std::printf("skipped: %s\n", support.ToString().c_str());
    return 77;
  }
  cudaStream_t stream = nullptr;
  if (Failed(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create a stream")) return 1;
  bool good = true;
  for (const uint64_t pool_bytes : {128 * dsckpt::kMiB, 24 * dsckpt::kMiB}) {
    good = Run("default stream", nullptr, pool_bytes, directory) && good;
    good = Run("own stream", stream, pool_bytes, directory) && good;
  }
  cudaStreamDestroy(stream);
  return good ? 0 : 1;
}
