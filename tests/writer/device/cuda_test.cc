#if DSCKPT_WITH_CUDA

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <atomic>
#include <thread>

#include "dsckpt/engine.h"
#include "dsckpt/file.h"
#include "dsckpt/state.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;

// What only CUDA itself can show.

namespace {

bool HaveGpus(int wanted) {
  int count = 0;
  if (DeviceSupport().ok() && cudaGetDeviceCount(&count) == cudaSuccess && count >= wanted) {
    return true;
  }
  WARN("skipped: needs " << wanted << " GPUs, there are " << count);
  return false;
}

void Must(cudaError_t error) {
  INFO(cudaGetErrorString(error));
  REQUIRE(error == cudaSuccess);
}

/// Whether the process has a context on a GPU, without making one.
bool HasContext(int device) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  const auto state = reinterpret_cast<CUresult (*)(CUdevice, unsigned*, int*)>(
      dlsym(library, "cuDevicePrimaryCtxGetState"));
  unsigned flags = 0;
  int active = 0;
  REQUIRE(state(device, &flags, &active) == CUDA_SUCCESS);
  return active != 0;
}

std::unique_ptr<Engine> MakeEngine() {
  auto engine = Engine::Create({.pool_bytes = 16 * kMiB, .window_bytes = kMiB});
  REQUIRE(engine.ok());
  return std::move(engine).value();
}

}  // namespace

TEST_CASE("C30: saving and loading on GPU 1 makes no context on GPU 0") {
  if (!HaveGpus(2)) return;
  if (HasContext(0)) {
    WARN("skipped: an earlier test in this process has used GPU 0");
    return;
  }
  const TempDir dir;
  constexpr size_t kBytes = 5'000'000;
  Must(cudaSetDevice(1));
  void* memory = nullptr;
  Must(cudaMalloc(&memory, kBytes));
  Must(cudaMemset(memory, 7, kBytes));
  State state;
  state.AddDeviceTensor("w", memory, kU8, {kBytes}, nullptr);
  // A thread that has never chosen a device, as engines' and loaders' threads are.
  Status saved, fenced, loaded;
  std::thread([&] {
    const auto engine = Engine::Create({.pool_bytes = 16 * kMiB}).value();
    saved = engine->Save(dir / "f", state).status();
    fenced = engine->FenceOnStream(nullptr);
    if (saved.ok()) saved = engine->WaitDurable();
    loaded = File::Open(dir / "f")->Restore(state);
  }).join();
  CHECK(saved.ToString() == "Ok");
  CHECK(fenced.ok());
  CHECK(loaded.ok());
  CHECK(!HasContext(0));
  Must(cudaFree(memory));
}

TEST_CASE("a graph captured in another thread survives saves, fences and loads") {
  if (!HaveGpus(1)) return;
  const TempDir dir;
  constexpr size_t kBytes = 5'000'000;
  Must(cudaSetDevice(0));
  void *memory = nullptr, *scratch = nullptr;
  Must(cudaMalloc(&memory, kBytes));
  Must(cudaMalloc(&scratch, 1024));
  Must(cudaMemset(memory, 7, kBytes));
  cudaStream_t trains = nullptr, captured = nullptr;
  Must(cudaStreamCreateWithFlags(&trains, cudaStreamNonBlocking));
  Must(cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking));
  State state;
  state.AddDeviceTensor("w", memory, kU8, {kBytes}, trains);

  std::atomic<int> phase{0};
  cudaError_t ended = cudaErrorUnknown;
  cudaGraph_t graph = nullptr;
  std::thread capture([&] {
    cudaSetDevice(0);
    // The mode in which an unsafe call of any thread would end the capture.
    cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal);
    cudaMemsetAsync(scratch, 1, 1024, captured);
    phase = 1;
    phase.notify_all();
    phase.wait(1);
    cudaMemsetAsync(scratch, 2, 1024, captured);
    ended = cudaStreamEndCapture(captured, &graph);
  });
  phase.wait(0);
  {
    // All of it during the capture: registration, streams, events, copies.
    const auto engine = MakeEngine();
    State wrong;
    wrong.AddDeviceTensor("w", memory, kU8, {kBytes}, captured);
    CHECK(engine->Save(dir / "g", wrong).status().code() == StatusCode::kFailedPrecondition);
    const auto save = engine->Save(dir / "f", state);
    CHECK(save.status().ToString() == "Ok");
    CHECK(engine->FenceOnStream(trains).ok());
    CHECK(engine->WaitDurable().ToString() == "Ok");
    CHECK(File::Open(dir / "f")->Restore(state).ToString() == "Ok");
  }
  phase = 2;
  phase.notify_all();
  capture.join();
  Must(ended);
  size_t nodes = 0;
  Must(cudaGraphGetNodes(graph, nullptr, &nodes));
  CHECK(nodes == 2);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(trains);
  cudaStreamDestroy(captured);
  cudaFree(memory);
  cudaFree(scratch);
}

#endif  // DSCKPT_WITH_CUDA
