/* Checkpointing GPU memory from C, in the shape of a small C/CUDA trainer: all parameters lie in
   one device buffer and Adam's moments in another, and each tensor is a pointer into them. Saves
   every third step while it trains, checks that every file holds exactly one step, and goes back to
   the first checkpoint.

     train_cuda_c [DIRECTORY]     default: the current one

   Exit status 0: all as it should be; 77: there is no GPU. */

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dsckpt/c.h"

enum { kTensors = 7, kSteps = 12, kEvery = 3 };

/* The embedding, then one block after another. Named so that they sort as the update walks them. */
static const struct {
  const char* name;
  size_t count;
} kParameters[kTensors] = {
    {"block.0/attention", 768 * 2304}, {"block.0/mlp", 768 * 3072}, {"block.0/norm", 768},
    {"block.1/attention", 768 * 2304}, {"block.1/mlp", 768 * 3072}, {"block.1/norm", 768},
    {"embedding", 5003 * 768}, /* Odd sizes are no special case. */
};

/* In the order of the update: the name of a group begins the names of its tensors. */
static const char* const kGroups[] = {"params/block.0/", "params/block.1/", "params/embedding"};

struct model {
  size_t count;   /* of all parameters */
  float* params;  /* one buffer */
  float* moments; /* another: m of all parameters, then v of all */
  float* activations;
  cudaStream_t stream;
};

static int failed(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) return 0;
  fprintf(stderr, "train_cuda_c: %s: %s\n", doing, cudaGetErrorString(error));
  return 1;
}

static int refused(int code, const dsckpt_error* error, const char* doing) {
  if (code == DSCKPT_OK) return 0;
  fprintf(stderr, "train_cuda_c: %s: %s\n", doing, error->message);
  return 1;
}

static int create(struct model* model) {
  for (int i = 0; i < kTensors; ++i) model->count += kParameters[i].count;
  const size_t bytes = model->count * sizeof(float);
  return failed(cudaMalloc((void**)&model->params, bytes), "allocate parameters") ||
         failed(cudaMalloc((void**)&model->moments, 2 * bytes), "allocate moments") ||
         failed(cudaMalloc((void**)&model->activations, bytes), "allocate activations") ||
         failed(cudaStreamCreateWithFlags(&model->stream, cudaStreamNonBlocking),
                "create a stream");
}

static void destroy(struct model* model) {
  cudaFree(model->params);
  cudaFree(model->moments);
  cudaFree(model->activations);
  if (model->stream != NULL) cudaStreamDestroy(model->stream);
}

/* One name and pointer a tensor. Errors are kept and reported by the save or restore. */
static dsckpt_state* describe(struct model* model, int64_t* step, dsckpt_error* error) {
  dsckpt_state* state = NULL;
  if (dsckpt_state_create(&state, error) != DSCKPT_OK) return NULL;
  const char* const prefixes[] = {"params", "adam/m", "adam/v"};
  float* const buffers[] = {model->params, model->moments, model->moments + model->count};
  for (int kind = 0; kind < 3; ++kind) {
    float* at = buffers[kind];
    for (int i = 0; i < kTensors; ++i) {
      char name[64];
      snprintf(name, sizeof name, "%s/%s", prefixes[kind], kParameters[i].name);
      const int64_t shape[1] = {(int64_t)kParameters[i].count};
      dsckpt_state_add_device_tensor(state, name, at, DSCKPT_F32, shape, 1, 0, model->stream, NULL,
                                     NULL);
      at += kParameters[i].count;
    }
  }
  dsckpt_state_add_attribute_int(state, "step", step, NULL);
  return state;
}

/* Memory sets and copies stand for a trainer's kernels, so that this file needs no CUDA compiler.
   After step n every byte of the state is n. */
static int forward_backward(struct model* model) {
  const size_t bytes = model->count * sizeof(float);
  int bad = 0;
  for (int i = 0; i < 20 && !bad; ++i) {
    bad = failed(cudaMemcpyAsync(model->activations, model->params, bytes, cudaMemcpyDeviceToDevice,
                                 model->stream),
                 "forward");
  }
  return bad;
}

static int update(struct model* model, dsckpt_engine* engine, int64_t step, dsckpt_error* error) {
  const size_t bytes = model->count * sizeof(float);
  float* at = model->params;
  int tensor = 0;
  for (size_t group = 0; group < sizeof kGroups / sizeof kGroups[0]; ++group) {
    /* The device waits until pending saves have read this group, not the host. */
    if (refused(dsckpt_engine_fence_on_stream(engine, model->stream, kGroups[group], error), error,
                "fence")) {
      return 1;
    }
    const char* const names = kGroups[group] + strlen("params/");
    for (; tensor < kTensors; ++tensor) {
      if (strncmp(kParameters[tensor].name, names, strlen(names)) != 0) break;
      const size_t count = kParameters[tensor].count;
      if (failed(cudaMemsetAsync(at, (int)step, count * sizeof(float), model->stream), "update")) {
        return 1;
      }
      at += count;
    }
  }
  return refused(dsckpt_engine_fence_on_stream(engine, model->stream, "adam/", error), error,
                 "fence") ||
         failed(cudaMemsetAsync(model->moments, (int)step, 2 * bytes, model->stream), "update");
}

static void path_of(char* out, size_t capacity, const char* directory, int64_t step) {
  snprintf(out, capacity, "%s/train_cuda_c.%lld.dsckpt", directory, (long long)step);
}

static int train(struct model* model, dsckpt_engine* engine, const dsckpt_state* state,
                 int64_t* step, const char* directory, dsckpt_error* error) {
  for (*step = 1; *step <= kSteps; ++*step) {
    if (forward_backward(model) || update(model, engine, *step, error)) return 1;
    if (*step % kEvery != 0) continue;
    char path[4096];
    path_of(path, sizeof path, directory, *step);
    if (refused(dsckpt_engine_save(engine, path, state, NULL, NULL, error), error, "save"))
      return 1;
  }
  return refused(dsckpt_engine_wait_durable(engine, error), error, "wait");
}

/* Whether every byte of every tensor is `step`. */
static int check_file(const char* path, int64_t step, dsckpt_error* error) {
  dsckpt_file* file = NULL;
  if (refused(dsckpt_file_open(path, NULL, &file, error), error, path)) return 1;
  int bad = dsckpt_file_tensor_count(file) != 3 * kTensors;
  for (uint32_t i = 0; i < dsckpt_file_tensor_count(file) && !bad; ++i) {
    dsckpt_tensor_info info = DSCKPT_INIT(dsckpt_tensor_info);
    char name[64] = "";
    dsckpt_view* view = NULL;
    if (dsckpt_file_tensor(file, i, &info, error) == DSCKPT_OK && info.name.bytes < sizeof name) {
      memcpy(name, info.name.data, info.name.bytes);
    }
    bad = refused(dsckpt_file_view(file, name, &view, error), error, name);
    const unsigned char* const data = dsckpt_view_data(view);
    for (uint64_t at = 0; at < dsckpt_view_bytes(view) && !bad; ++at) {
      bad = data[at] != (unsigned char)step;
      if (bad)
        fprintf(stderr, "train_cuda_c: %s: %s: wrong byte %llu\n", path, name,
                (unsigned long long)at);
    }
    dsckpt_view_destroy(view);
  }
  dsckpt_file_destroy(file);
  return bad;
}

/* Back to the first checkpoint, straight into device memory. */
static int go_back(struct model* model, const dsckpt_state* state, const int64_t* step,
                   const char* directory, dsckpt_error* error) {
  char path[4096];
  path_of(path, sizeof path, directory, kEvery);
  dsckpt_file* file = NULL;
  unsigned char last = 0;
  const int bad = refused(dsckpt_file_open(path, NULL, &file, error), error, "open") ||
                  refused(dsckpt_file_restore(file, state, NULL, error), error, "restore") ||
                  failed(cudaMemcpy(&last, (unsigned char*)(model->moments + 2 * model->count) - 1,
                                    1, cudaMemcpyDeviceToHost),
                         "read back");
  dsckpt_file_destroy(file);
  return bad || *step != kEvery || last != kEvery;
}

static int run(const char* directory, uint64_t pool_bytes) {
  struct model model = {0};
  int64_t step = 0;
  dsckpt_error error = {0};
  dsckpt_engine_options options = DSCKPT_INIT(dsckpt_engine_options);
  options.pool_bytes = pool_bytes;
  dsckpt_engine* engine = NULL;
  dsckpt_state* state = NULL;
  int bad = create(&model);
  if (!bad) {
    options.register_pool_for = 1; /* GPU 0, which is in use since create() */
    state = describe(&model, &step, &error);
    bad = state == NULL ||
          refused(dsckpt_engine_create(&options, &engine, &error), &error, "create the engine") ||
          train(&model, engine, state, &step, directory, &error) ||
          go_back(&model, state, &step, directory, &error);
  }
  dsckpt_engine_destroy(engine);
  for (int64_t saved = kEvery; saved <= kSteps; saved += kEvery) {
    char path[4096];
    path_of(path, sizeof path, directory, saved);
    bad = bad || check_file(path, saved, &error);
    remove(path);
  }
  dsckpt_state_destroy(state);
  destroy(&model);
  printf("pool %llu MiB: %s\n", (unsigned long long)(pool_bytes >> 20),
         bad ? "FAILED" : "every checkpoint holds exactly one step");
  return bad;
}

int main(int argc, char** argv) {
  const char* directory = argc > 1 ? argv[1] : ".";
  dsckpt_error error = {0};
  if (dsckpt_device_support(&error) != DSCKPT_OK) {
    printf("skipped: %s\n", error.message);
    return 77;
  }
  /* With a pool that holds the state, and with one that does not. */
  const int large = run(directory, (uint64_t)256 << 20);
  const int small = run(directory, (uint64_t)24 << 20);
  return large || small;
}
