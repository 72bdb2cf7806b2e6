/* Round trip and error paths of dsckpt/c.h, as a C11 program. Runs in a directory of its own. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dsckpt/c.h"
#include "tests/c/check.h"

enum { kRows = 300, kColumns = 256 }; /* 300 KiB: captured lazily */

/* Everything that the saved state consists of. */
struct job {
  float weights[kRows][kColumns];
  float column[kRows]; /* saved through strides out of a matrix */
  double scale;
  unsigned char rng[40];
  int64_t step;
  double loss;
  char run[16];
  char object[8];
  size_t object_bytes;
};

static struct job source, target;
static float matrix[kRows][3];
static float matrix_back[kRows][3];
static int released;

static void count_release(void* owner) { ++*(int*)owner; }

static int write_object(void* user, dsckpt_sink* sink) {
  const struct job* job = user;
  const int code = dsckpt_sink_write(sink, job->object, 3);
  return code != 0 ? code : dsckpt_sink_write(sink, job->object + 3, job->object_bytes - 3);
}

static int restore_object(void* user, const void* data, uint64_t bytes) {
  struct job* job = user;
  if (bytes > sizeof job->object) return DSCKPT_MISMATCH;
  memcpy(job->object, data, (size_t)bytes);
  job->object_bytes = (size_t)bytes;
  return 0;
}

static void fill(struct job* job) {
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) job->weights[r][c] = (float)(r * kColumns + c);
    for (int c = 0; c < 3; ++c) matrix[r][c] = (float)(10 * r + c);
  }
  job->scale = 0.5;
  for (size_t i = 0; i < sizeof job->rng; ++i) job->rng[i] = (unsigned char)(200 + i);
  job->step = 41;
  job->loss = 2.25;
  strcpy(job->run, "first");
  memcpy(job->object, "object", 6);
  job->object_bytes = 6;
}

/* The same registrations save and restore. */
static dsckpt_state* describe(struct job* job, float (*strided)[3]) {
  dsckpt_error error = {0};
  dsckpt_state* state = NULL;
  CHECK_OK(dsckpt_state_create(&state, &error));
  const int64_t shape[2] = {kRows, kColumns};
  dsckpt_tensor_options owned = DSCKPT_INIT(dsckpt_tensor_options);
  owned.release = count_release;
  owned.owner = &released;
  CHECK_OK(dsckpt_state_add_tensor(state, "model/weights", job->weights, DSCKPT_F32, shape, 2,
                                   &owned, &error));
  const int64_t stride = 3;
  dsckpt_tensor_options column = DSCKPT_INIT(dsckpt_tensor_options);
  column.strides = &stride;
  column.encoding = DSCKPT_BYTE_PLANE_ZSTD;
  column.capture = DSCKPT_AT_SAVE;
  CHECK_OK(dsckpt_state_add_tensor(state, "model/column", &strided[0][1], DSCKPT_F32, shape, 1,
                                   &column, &error));
  CHECK_OK(dsckpt_state_add_tensor(state, "scale", &job->scale, DSCKPT_F64, NULL, 0, NULL, &error));
  CHECK_OK(dsckpt_state_add_bytes(state, "rng", job->rng, sizeof job->rng, &error));
  CHECK_OK(dsckpt_state_rank_own(state, "rng", 0, &error));
  dsckpt_object_source object = DSCKPT_INIT(dsckpt_object_source);
  object.media_type = "text/plain";
  object.write = write_object;
  object.restore = restore_object;
  object.user = job;
  CHECK_OK(dsckpt_state_add_object(state, "note", &object, &error));
  CHECK_OK(dsckpt_state_add_attribute_int(state, "step", &job->step, &error));
  CHECK_OK(dsckpt_state_add_attribute_double(state, "loss", &job->loss, &error));
  CHECK_OK(dsckpt_state_add_attribute_string(state, "run", job->run, sizeof job->run, &error));
  return state;
}

static void save(dsckpt_engine* engine, const char* path) {
  dsckpt_error error = {0};
  fill(&source);
  dsckpt_state* state = describe(&source, matrix);
  dsckpt_save* handle = NULL;
  CHECK_OK(dsckpt_engine_save(engine, path, state, NULL, &handle, &error));
  source.rng[0] = 0; /* captured at save: may change at once */
  CHECK_OK(dsckpt_engine_fence(engine, &error));
  source.weights[1][1] = -1.0f; /* captured lazily: may change after the fence */
  CHECK_OK(dsckpt_save_wait_captured(handle, &error));
  CHECK_OK(dsckpt_save_wait_durable(handle, &error));
  dsckpt_progress progress = DSCKPT_INIT(dsckpt_progress);
  CHECK_OK(dsckpt_save_progress(handle, &progress, &error));
  CHECK(progress.captured && progress.durable);
  CHECK(progress.captured_bytes >= sizeof source.weights);
  dsckpt_save_destroy(handle);
  CHECK(released == 0);
  dsckpt_state_destroy(state);
  CHECK(released == 1);
  dsckpt_statistics statistics = DSCKPT_INIT(dsckpt_statistics);
  CHECK_OK(dsckpt_engine_statistics(engine, &statistics, &error));
  CHECK(statistics.saves_durable == 1);
  CHECK(statistics.pool_bytes == 8u << 20);
}

static void restore(const dsckpt_file* file) {
  dsckpt_error error = {0};
  dsckpt_state* state = describe(&target, matrix_back);
  CHECK_OK(dsckpt_file_restore(file, state, NULL, &error));
  fill(&source);
  CHECK(memcmp(target.weights, source.weights, sizeof source.weights) == 0);
  for (int r = 0; r < kRows; ++r) CHECK(matrix_back[r][1] == matrix[r][1]);
  CHECK(matrix_back[7][0] == 0.0f);
  CHECK(target.scale == 0.5);
  CHECK(memcmp(target.rng, source.rng, sizeof source.rng) == 0);
  CHECK(target.step == 41 && target.loss == 2.25 && strcmp(target.run, "first") == 0);
  CHECK(target.object_bytes == 6 && memcmp(target.object, "object", 6) == 0);

  double wrong_dtype[1] = {0};
  dsckpt_restore_options partial = DSCKPT_INIT(dsckpt_restore_options);
  partial.partial = 1;
  dsckpt_state* other = NULL;
  CHECK_OK(dsckpt_state_create(&other, &error));
  CHECK_OK(dsckpt_state_add_tensor(other, "scale", wrong_dtype, DSCKPT_I64, NULL, 0, NULL, &error));
  CHECK_CODE(dsckpt_file_restore(file, other, &partial, &error), DSCKPT_MISMATCH);
  CHECK(strstr(error.message, "scale") != NULL);
  dsckpt_state_destroy(other);
  dsckpt_state_destroy(state);
}

static void look_at_items(const dsckpt_file* file) {
  dsckpt_error error = {0};
  CHECK(dsckpt_file_tensor_count(file) == 3);
  CHECK(dsckpt_file_object_count(file) == 2);
  CHECK(dsckpt_file_alias_count(file) == 0);
  CHECK(dsckpt_file_bytes(file) > sizeof source.weights);

  dsckpt_tensor_info info = DSCKPT_INIT(dsckpt_tensor_info);
  CHECK_OK(dsckpt_file_tensor(file, 0, &info, &error));
  CHECK(info.name.bytes == 12 && memcmp(info.name.data, "model/column", 12) == 0);
  CHECK(info.encoding == DSCKPT_BYTE_PLANE_ZSTD && info.raw_bytes == 4 * kRows);
  CHECK_CODE(dsckpt_file_tensor(file, 3, &info, &error), DSCKPT_NOT_FOUND);
  CHECK_OK(dsckpt_file_find_tensor(file, "model/weights", &info, &error));
  CHECK(info.ordinal == 1 && info.dtype == DSCKPT_F32 && info.encoding == DSCKPT_RAW);
  CHECK(info.rank == 2 && info.shape[0] == kRows && info.shape[1] == kColumns);
  CHECK(strcmp(dsckpt_dtype_name(info.dtype), "F32") == 0);

  dsckpt_object_info object = DSCKPT_INIT(dsckpt_object_info);
  CHECK_OK(dsckpt_file_object(file, 0, &object, &error));
  CHECK(object.name.bytes == 4 && memcmp(object.name.data, "note", 4) == 0);
  CHECK(object.media_type.bytes == 10 && memcmp(object.media_type.data, "text/plain", 10) == 0);
  CHECK_CODE(dsckpt_file_find_object(file, "model/weights", &object, &error), DSCKPT_NOT_FOUND);

  /* A struct of an older library version: only its bytes are written. */
  dsckpt_tensor_info old;
  memset(&old, 0x5A, sizeof old);
  old.size = offsetof(dsckpt_tensor_info, shape);
  CHECK_OK(dsckpt_file_find_tensor(file, "scale", &old, &error));
  CHECK(old.name.bytes == 5 && old.ordinal == 0x5A5A5A5Au);
}

static void read_items(dsckpt_file* file) {
  dsckpt_error error = {0};
  static float weights[kRows][kColumns];
  CHECK_OK(dsckpt_file_read(file, "model/weights", weights, sizeof weights, &error));
  CHECK(weights[299][255] == (float)(300 * 256 - 1));
  CHECK_CODE(dsckpt_file_read(file, "model/weights", weights, 8, &error), DSCKPT_INVALID_ARGUMENT);
  CHECK_CODE(dsckpt_file_read(file, "absent", weights, 8, &error), DSCKPT_NOT_FOUND);
  CHECK(strstr(error.message, "absent") != NULL);

  double scale = 0;
  float column[kRows];
  const dsckpt_load_request requests[2] = {{"scale", &scale, sizeof scale, NULL, 0},
                                           {"model/column", column, sizeof column, NULL, 0}};
  CHECK_OK(dsckpt_file_load(file, requests, 2, &error));
  CHECK(scale == 0.5 && column[2] == 21.0f);

  float box[2][3];
  const int64_t begin[2] = {4, 10}, end[2] = {6, 13};
  CHECK_OK(dsckpt_file_read_slice(file, "model/weights", begin, end, 2, box, sizeof box, &error));
  CHECK(box[0][0] == 4 * 256 + 10 && box[1][2] == 5 * 256 + 12);
  const int64_t outside[2] = {301, 13};
  CHECK_CODE(
      dsckpt_file_read_slice(file, "model/weights", begin, outside, 2, box, sizeof box, &error),
      DSCKPT_INVALID_ARGUMENT);

  char object[6];
  CHECK_OK(dsckpt_file_read_object(file, "note", object, sizeof object, &error));
  CHECK(memcmp(object, "object", 6) == 0);
  CHECK_CODE(dsckpt_file_read_object(file, "note", object, 5, &error), DSCKPT_INVALID_ARGUMENT);

  /* A view outlives the file. */
  dsckpt_view* view = NULL;
  CHECK_OK(dsckpt_file_view(file, "model/weights", &view, &error));
  CHECK(dsckpt_view_bytes(view) == sizeof weights);
  CHECK((uintptr_t)dsckpt_view_data(view) % 4096 == 0); /* 300 KiB is a multiple of a page */
  dsckpt_file_destroy(file);
  CHECK(memcmp(dsckpt_view_data(view), weights, sizeof weights) == 0);
  dsckpt_view_destroy(view);
}

static void read_attributes(const dsckpt_file* file) {
  dsckpt_error error = {0};
  int64_t step = 0;
  double loss = 0;
  char run[8] = "";
  size_t needed = 0;
  CHECK_OK(dsckpt_file_attribute_int(file, "step", &step, &error));
  CHECK_OK(dsckpt_file_attribute_double(file, "loss", &loss, &error));
  CHECK_OK(dsckpt_file_attribute_string(file, "run", run, sizeof run, &needed, &error));
  CHECK(step == 41 && loss == 2.25 && strcmp(run, "first") == 0 && needed == 6);
  CHECK_CODE(dsckpt_file_attribute_string(file, "run", run, 5, &needed, &error),
             DSCKPT_INVALID_ARGUMENT);
  CHECK_CODE(dsckpt_file_attribute_int(file, "loss", &step, &error), DSCKPT_MISMATCH);
  CHECK_CODE(dsckpt_file_attribute_int(file, "tokens", &step, &error), DSCKPT_NOT_FOUND);
}

static void registration_errors(dsckpt_engine* engine) {
  dsckpt_error error = {0};
  dsckpt_state* state = NULL;
  const int64_t shape[1] = {1};
  float value = 0;
  CHECK_OK(dsckpt_state_create(&state, &error));
  CHECK_CODE(dsckpt_state_add_tensor(state, "x", &value, 999, shape, 1, NULL, &error),
             DSCKPT_INVALID_ARGUMENT);
  CHECK(strstr(error.message, "999") != NULL);
  /* Sticky: a caller that looks at no registration still learns of it. */
  CHECK_OK(dsckpt_state_add_tensor(state, "y", &value, DSCKPT_F32, shape, 1, NULL, NULL));
  CHECK_CODE(dsckpt_engine_save(engine, "never.dsckpt", state, NULL, NULL, &error),
             DSCKPT_INVALID_ARGUMENT);
  CHECK(strstr(error.message, "999") != NULL);
  CHECK(access("never.dsckpt", F_OK) != 0);
  dsckpt_state_destroy(state);

  CHECK_OK(dsckpt_state_create(&state, &error));
  dsckpt_state_add_tensor(state, "twice", &value, DSCKPT_F32, shape, 1, NULL, NULL);
  dsckpt_state_add_tensor(state, "twice", &value, DSCKPT_F32, shape, 1, NULL, NULL);
  CHECK_CODE(dsckpt_save_file("never.dsckpt", state, NULL, &error), DSCKPT_ALREADY_EXISTS);
  dsckpt_state_destroy(state);
  CHECK(access("never.dsckpt", F_OK) != 0);
}

static void argument_errors(dsckpt_engine* engine) {
  dsckpt_error error = {0};
  dsckpt_engine* no_engine = NULL;
  dsckpt_file* no_file = NULL;
  CHECK_CODE(dsckpt_engine_fence(NULL, &error), DSCKPT_INVALID_ARGUMENT);
  CHECK(dsckpt_engine_save(engine, NULL, NULL, NULL, NULL, NULL) == DSCKPT_INVALID_ARGUMENT);
  CHECK_CODE(dsckpt_file_view(NULL, "x", NULL, &error), DSCKPT_INVALID_ARGUMENT);
  CHECK_CODE(dsckpt_file_open("does/not/exist", NULL, &no_file, &error), DSCKPT_NOT_FOUND);
  CHECK(strstr(error.message, "does/not/exist") != NULL && no_file == NULL);

  dsckpt_engine_options unset;
  memset(&unset, 0, sizeof unset);
  CHECK_CODE(dsckpt_engine_create(&unset, &no_engine, &error), DSCKPT_INVALID_ARGUMENT);
  struct {
    dsckpt_engine_options known;
    uint64_t newer;
  } future = {DSCKPT_INIT(dsckpt_engine_options), 1};
  future.known.size = sizeof future;
  future.known.pool_bytes = 1 << 20;
  CHECK_CODE(dsckpt_engine_create(&future.known, &no_engine, &error), DSCKPT_UNSUPPORTED);
  future.newer = 0;
  CHECK_OK(dsckpt_engine_create(&future.known, &no_engine, &error));
  dsckpt_engine_destroy(no_engine);
  dsckpt_engine_options range = DSCKPT_INIT(dsckpt_engine_options);
  range.when_busy = 3;
  CHECK_CODE(dsckpt_engine_create(&range, &no_engine, &error), DSCKPT_INVALID_ARGUMENT);

  dsckpt_engine_destroy(NULL);
  dsckpt_state_destroy(NULL);
  dsckpt_save_destroy(NULL);
  dsckpt_save_cancel(NULL);
  dsckpt_file_destroy(NULL);
  dsckpt_view_destroy(NULL);
}

/* With a device all of this is tested in tests/device. */
static void no_device(dsckpt_engine* engine) {
  dsckpt_error error = {0};
  dsckpt_state* state = NULL;
  dsckpt_file* file = NULL;
  const int64_t shape[1] = {4};
  float value[4] = {1, 2, 3, 4};
  CHECK_CODE(dsckpt_engine_fence_on_stream(NULL, NULL, NULL, &error), DSCKPT_INVALID_ARGUMENT);
  CHECK_CODE(dsckpt_engine_fence_prefix(engine, NULL, &error), DSCKPT_INVALID_ARGUMENT);
  CHECK_OK(dsckpt_engine_fence_prefix(engine, "model/", &error));
  CHECK_OK(dsckpt_engine_fence_on_stream(engine, NULL, "model/", &error));
  CHECK_OK(dsckpt_state_create(&state, &error));
  CHECK_CODE(dsckpt_state_add_device_tensor(state, "x", value, DSCKPT_F32, shape, 1, -1, NULL, NULL,
                                            &error),
             DSCKPT_INVALID_ARGUMENT);
  dsckpt_state_destroy(state);
  CHECK_OK(dsckpt_state_create(&state, &error));
  const int64_t stride = 1;
  dsckpt_tensor_options strided = DSCKPT_INIT(dsckpt_tensor_options);
  strided.strides = &stride;
  strided.release = count_release;
  const int before = released;
  CHECK_CODE(dsckpt_state_add_device_tensor(state, "x", value, DSCKPT_F32, shape, 1, 0, NULL,
                                            &strided, &error),
             DSCKPT_UNSUPPORTED);
  CHECK(released == before);
  dsckpt_state_destroy(state);

  if (dsckpt_device_support(&error) == DSCKPT_OK) return;
  CHECK_CODE(dsckpt_device_support(&error), DSCKPT_UNSUPPORTED);
  CHECK_OK(dsckpt_state_create(&state, &error));
  CHECK_OK(dsckpt_state_add_device_tensor(state, "x", value, DSCKPT_F32, shape, 1,
                                          DSCKPT_DEVICE_OF_POINTER, NULL, NULL, &error));
  CHECK_CODE(dsckpt_engine_save(engine, "never.dsckpt", state, NULL, NULL, &error),
             DSCKPT_UNSUPPORTED);
  CHECK(access("never.dsckpt", F_OK) != 0);
  dsckpt_state_destroy(state);
  dsckpt_engine_options options = DSCKPT_INIT(dsckpt_engine_options);
  options.pool_bytes = 1 << 20;
  options.register_pool_for = 1;
  dsckpt_engine* no_engine = NULL;
  CHECK_CODE(dsckpt_engine_create(&options, &no_engine, &error), DSCKPT_UNSUPPORTED);

  CHECK_OK(dsckpt_state_create(&state, &error));
  dsckpt_state_add_tensor(state, "x", value, DSCKPT_F32, shape, 1, NULL, NULL);
  CHECK_OK(dsckpt_save_file("x.dsckpt", state, NULL, &error));
  dsckpt_state_destroy(state);
  CHECK_OK(dsckpt_file_open("x.dsckpt", NULL, &file, &error));
  const dsckpt_load_request request = {"x", value, sizeof value, NULL, 0};
  CHECK_CODE(dsckpt_file_load_device(file, &request, 1, 0, NULL, &error), DSCKPT_UNSUPPORTED);
  CHECK_CODE(dsckpt_file_load_device(file, &request, 1, -1, NULL, &error), DSCKPT_INVALID_ARGUMENT);
  dsckpt_file_destroy(file);
  remove("x.dsckpt");
}

static void destination_error(dsckpt_engine* engine) {
  dsckpt_error error = {0};
  dsckpt_state* state = NULL;
  CHECK_OK(dsckpt_state_create(&state, &error));
  dsckpt_state_add_attribute_int(state, "step", &source.step, NULL);
  int code = dsckpt_engine_save(engine, "no/such/directory/x", state, NULL, NULL, &error);
  if (code == DSCKPT_OK) code = dsckpt_engine_wait_durable(engine, &error);
  CHECK_CODE(code, DSCKPT_NOT_FOUND);
  CHECK(error.error_number == ENOENT);
  CHECK(strstr(error.message, "no/such/directory") != NULL);
  CHECK_OK(dsckpt_engine_wait_durable(engine, &error));
  dsckpt_state_destroy(state);
}

static int failing_write(void* user, dsckpt_sink* sink) {
  (void)user;
  (void)sink;
  return DSCKPT_NO_SPACE;
}

static void failing_object(dsckpt_engine* engine) {
  dsckpt_error error = {0};
  dsckpt_state* state = NULL;
  dsckpt_save* handle = NULL;
  CHECK_OK(dsckpt_state_create(&state, &error));
  dsckpt_object_source object = DSCKPT_INIT(dsckpt_object_source);
  object.write = failing_write;
  dsckpt_state_add_object(state, "fails", &object, NULL);
  CHECK_OK(dsckpt_engine_save(engine, "fails.dsckpt", state, NULL, &handle, &error));
  CHECK_CODE(dsckpt_save_wait_durable(handle, &error), DSCKPT_NO_SPACE);
  CHECK(access("fails.dsckpt", F_OK) != 0);
  dsckpt_save_destroy(handle);
  dsckpt_state_destroy(state);
}

static void collect(void* user, const dsckpt_problem* problem) {
  CHECK(strcmp(problem->kind, "checksum") == 0);
  strncat(user, problem->item, 60);
}

static void flip(const char* path, uint64_t offset) {
  FILE* file = fopen(path, "r+b");
  CHECK(file != NULL);
  fseek(file, (long)offset, SEEK_SET);
  const int byte = fgetc(file);
  fseek(file, (long)offset, SEEK_SET);
  fputc(byte ^ 1, file);
  fclose(file);
}

static void verify(const char* path, uint64_t weights_offset) {
  dsckpt_error error = {0};
  char items[64] = "";
  dsckpt_verify_options options = DSCKPT_INIT(dsckpt_verify_options);
  options.decode = 1;
  options.on_problem = collect;
  options.user = items;
  CHECK_OK(dsckpt_verify(path, &options, &error));
  flip(path, weights_offset);
  CHECK_CODE(dsckpt_verify(path, &options, &error), DSCKPT_CORRUPT);
  CHECK(strcmp(items, "model/weights") == 0);
  CHECK(strstr(error.message, "model/weights") != NULL);
  CHECK_CODE(dsckpt_verify("absent.dsckpt", NULL, &error), DSCKPT_NOT_FOUND);
}

static void ignore_header(const char* path) {
  dsckpt_error error = {0};
  dsckpt_file* file = NULL;
  flip(path, 4095); /* The last space of the header. */
  CHECK_CODE(dsckpt_file_open(path, NULL, &file, &error), DSCKPT_MISMATCH);
  dsckpt_open_options options = DSCKPT_INIT(dsckpt_open_options);
  options.ignore_header = 1;
  CHECK_OK(dsckpt_file_open(path, &options, &file, &error));
  CHECK(dsckpt_file_tensor_count(file) != 0);
  dsckpt_file_destroy(file);
}

static void plain_safetensors(dsckpt_engine* engine) {
  dsckpt_error error = {0};
  dsckpt_state* state = NULL;
  dsckpt_file* file = NULL;
  const int64_t shape[1] = {2};
  float values[2] = {1, 2}, back[2] = {0, 0};
  CHECK_OK(dsckpt_state_create(&state, &error));
  dsckpt_state_add_tensor(state, "w", values, DSCKPT_F32, shape, 1, NULL, NULL);
  const char* const keys[1] = {"author"};
  const char* const texts[1] = {"test"};
  dsckpt_save_options options = DSCKPT_INIT(dsckpt_save_options);
  options.container = DSCKPT_CONTAINER_SAFETENSORS;
  options.metadata_keys = keys;
  options.metadata_values = texts;
  options.metadata_count = 1;
  CHECK_OK(dsckpt_engine_save(engine, "w.safetensors", state, &options, NULL, &error));
  CHECK_OK(dsckpt_engine_wait_durable(engine, &error));
  CHECK_OK(dsckpt_file_open("w.safetensors", NULL, &file, &error));
  CHECK_OK(dsckpt_file_read(file, "w", back, sizeof back, &error));
  CHECK(back[0] == 1 && back[1] == 2 && dsckpt_file_tensor_count(file) == 1);
  CHECK(dsckpt_file_verifiable(file) == 0); /* Plain safetensors has no checksums. */
  dsckpt_file_destroy(file);
  dsckpt_state_destroy(state);
}

static void statistics(dsckpt_engine* engine) {
  dsckpt_error error = {0};
  dsckpt_state* state = NULL;
  dsckpt_file* file = NULL;
  const int64_t shape[1] = {4};
  float values[4] = {1, -2, 0, NAN};
  CHECK_OK(dsckpt_state_create(&state, &error));
  dsckpt_state_add_tensor(state, "w", values, DSCKPT_F32, shape, 1, NULL, NULL);
  dsckpt_save_options options = DSCKPT_INIT(dsckpt_save_options);
  for (options.statistics = 0; options.statistics < 2; ++options.statistics) {
    CHECK_OK(dsckpt_engine_save(engine, "s.dsckpt", state, &options, NULL, &error));
    CHECK_OK(dsckpt_engine_wait_durable(engine, &error));
    CHECK_OK(dsckpt_file_open("s.dsckpt", NULL, &file, &error));
    CHECK(dsckpt_file_verifiable(file) == 1 && dsckpt_file_verifiable(NULL) == 0);
    dsckpt_tensor_statistics found = DSCKPT_INIT(dsckpt_tensor_statistics);
    if (options.statistics == 0) {
      CHECK_CODE(dsckpt_file_tensor_statistics(file, "w", &found, &error), DSCKPT_NOT_FOUND);
      CHECK(strstr(error.message, "no statistics of tensor 'w'") != NULL);
    } else {
      CHECK_OK(dsckpt_file_tensor_statistics(file, "w", &found, &error));
      CHECK(found.nan == 1 && found.inf == 0 && found.zero == 1);
      CHECK(found.min == -2 && found.max == 1 && found.sum == -1 && found.sum_squares == 5);
    }
    dsckpt_checkpoint* checkpoint = NULL;
    dsckpt_tensor_statistics whole = DSCKPT_INIT(dsckpt_tensor_statistics);
    CHECK_OK(dsckpt_checkpoint_open("s.dsckpt", NULL, &checkpoint, &error));
    if (options.statistics == 0) {
      CHECK_CODE(dsckpt_checkpoint_tensor_statistics(checkpoint, "w", &whole, &error),
                 DSCKPT_NOT_FOUND);
      CHECK(strstr(error.message, "holds tensor 'w' whole has statistics") != NULL);
    } else {
      CHECK_OK(dsckpt_checkpoint_tensor_statistics(checkpoint, "w", &whole, &error));
      CHECK(whole.nan == 1 && whole.zero == 1 && whole.sum == -1 && whole.sum_squares == 5);
    }
    CHECK_CODE(dsckpt_checkpoint_tensor_statistics(checkpoint, "x", &whole, &error),
               DSCKPT_NOT_FOUND);
    dsckpt_checkpoint_destroy(checkpoint);
    dsckpt_file_destroy(file);
  }
  dsckpt_state_destroy(state);
}

static void vendor_data(dsckpt_engine* engine) {
  dsckpt_error error = {0};
  dsckpt_state* state = NULL;
  dsckpt_file* file = NULL;
  char content[33], other[33];
  CHECK_OK(dsckpt_state_create(&state, &error));
  const dsckpt_vendor_entry entries[2] = {{"com.example.b", "\0x", 2}, {"a", NULL, 0}};
  dsckpt_save_options options = DSCKPT_INIT(dsckpt_save_options);
  CHECK_OK(dsckpt_engine_save(engine, "plain.dsckpt", state, &options, NULL, &error));
  options.vendor = entries;
  options.vendor_count = 2;
  CHECK_OK(dsckpt_engine_save(engine, "vendor.dsckpt", state, &options, NULL, &error));
  CHECK_OK(dsckpt_engine_wait_durable(engine, &error));
  CHECK_OK(dsckpt_file_open("vendor.dsckpt", NULL, &file, &error));
  CHECK(dsckpt_file_vendor_count(file) == 2);
  dsckpt_text name, data;
  CHECK_OK(dsckpt_file_vendor(file, 0, &name, &data, &error));
  CHECK(name.bytes == 1 && name.data[0] == 'a' && data.bytes == 0);
  CHECK_OK(dsckpt_file_vendor(file, 1, NULL, &data, &error));
  CHECK(data.bytes == 2 && memcmp(data.data, "\0x", 2) == 0);
  CHECK_CODE(dsckpt_file_vendor(file, 2, &name, NULL, &error), DSCKPT_NOT_FOUND);
  CHECK_OK(dsckpt_file_content_digest(file, content, &error));
  dsckpt_file_destroy(file);
  CHECK_OK(dsckpt_file_open("plain.dsckpt", NULL, &file, &error));
  CHECK(dsckpt_file_vendor_count(file) == 0);
  CHECK_OK(dsckpt_file_content_digest(file, other, &error));
  CHECK(strlen(content) == 32 && strcmp(content, other) == 0);
  dsckpt_file_destroy(file);
  options.vendor = NULL;
  CHECK_CODE(dsckpt_engine_save(engine, "vendor.dsckpt", state, &options, NULL, &error),
             DSCKPT_INVALID_ARGUMENT);
  dsckpt_state_destroy(state);
}

static void round_trip(dsckpt_engine* engine) {
  dsckpt_error error = {0};
  const char* path = "job.dsckpt";
  save(engine, path);
  dsckpt_file* file = NULL;
  CHECK_OK(dsckpt_file_open(path, NULL, &file, &error));
  if (file == NULL) return;
  restore(file);
  look_at_items(file);
  read_attributes(file);
  dsckpt_tensor_info info = DSCKPT_INIT(dsckpt_tensor_info);
  CHECK_OK(dsckpt_file_find_tensor(file, "model/weights", &info, &error));
  read_items(file);
  verify(path, info.offset + 12345);
  ignore_header(path);
}

int main(void) {
  char directory[] = "c_api.XXXXXX";
  if (mkdtemp(directory) == NULL || chdir(directory) != 0) return 2;
  CHECK(strcmp(dsckpt_code_name(DSCKPT_CORRUPT), "Corrupt") == 0);
  CHECK(strchr(dsckpt_version(), '.') != NULL);

  dsckpt_error error = {0};
  dsckpt_engine_options options = DSCKPT_INIT(dsckpt_engine_options);
  options.pool_bytes = 8 << 20;
  options.window_bytes = 1 << 20;
  dsckpt_engine* engine = NULL;
  CHECK_OK(dsckpt_engine_create(&options, &engine, &error));
  if (engine != NULL) {
    round_trip(engine);
    registration_errors(engine);
    argument_errors(engine);
    no_device(engine);
    destination_error(engine);
    failing_object(engine);
    plain_safetensors(engine);
    statistics(engine);
    vendor_data(engine);
  }
  dsckpt_engine_destroy(engine);
  remove("job.dsckpt");
  remove("w.safetensors");
  remove("s.dsckpt");
  remove("plain.dsckpt");
  remove("vendor.dsckpt");
  if (chdir("..") != 0 || rmdir(directory) != 0) ++failures; /* nothing else may be left */
  if (failures == 0) puts("ok");
  return failures != 0;
}
