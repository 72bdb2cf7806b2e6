/* Checkpoints of a group of ranks through dsckpt/c.h, as a C11 program: saved, listed, read,
 * restored, verified and merged. Runs in a directory of its own. */
#define _XOPEN_SOURCE 700 /* mkdtemp, nftw */
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dsckpt/c.h"
#include "tests/c/check.h"

enum { kRanks = 2, kRows = 6, kColumns = 4, kFlat = 10 };

static const int64_t kWhole[2] = {kRows, kColumns};
static const int64_t kFlatShape[1] = {kFlat};

/* What one of `ranks` ranks holds: rows of a matrix as a box, and a stretch of a vector. */
struct part {
  float rows[kRows][kColumns];
  double flat[kFlat];
  int64_t first_row, end_row, first_flat, end_flat;
  char rng[8];
  int64_t step;
};

static void split(struct part* part, int rank, int ranks) {
  memset(part, 0, sizeof *part);
  part->first_row = kRows * rank / ranks;
  part->end_row = kRows * (rank + 1) / ranks;
  part->first_flat = kFlat * rank / ranks;
  part->end_flat = kFlat * (rank + 1) / ranks;
}

static void fill(struct part* part, int rank, int64_t step) {
  for (int64_t r = part->first_row; r < part->end_row; ++r) {
    for (int c = 0; c < kColumns; ++c) {
      part->rows[r - part->first_row][c] = (float)(100 * step + r * kColumns + c);
    }
  }
  for (int64_t i = part->first_flat; i < part->end_flat; ++i) {
    part->flat[i - part->first_flat] = (double)i / 2;
  }
  memset(part->rng, 'a' + rank, sizeof part->rng);
  part->step = step;
}

/* The same registrations save and restore. */
static dsckpt_state* describe(struct part* part, uint32_t rank) {
  dsckpt_error error = {0};
  dsckpt_state* state = NULL;
  CHECK_OK(dsckpt_state_create(&state, &error));
  const int64_t begin[2] = {part->first_row, 0}, end[2] = {part->end_row, kColumns};
  dsckpt_piece box = {0};
  box.logical_name = "model/matrix";
  box.logical_shape = kWhole;
  box.logical_rank = 2;
  box.begin = begin;
  box.end = end;
  dsckpt_tensor_options options = DSCKPT_INIT(dsckpt_tensor_options);
  options.pieces = &box;
  options.piece_count = 1;
  const int64_t rows[2] = {part->end_row - part->first_row, kColumns};
  CHECK_OK(dsckpt_state_add_tensor(state, "model/matrix", part->rows, DSCKPT_F32, rows, 2, &options,
                                   &error));
  dsckpt_piece flat = {0};
  flat.logical_name = "optimizer/moments";
  flat.logical_shape = kFlatShape;
  flat.logical_rank = 1;
  flat.form = DSCKPT_PIECE_FLAT;
  flat.flat_begin = part->first_flat;
  flat.flat_end = part->end_flat;
  options.pieces = &flat;
  const int64_t count = part->end_flat - part->first_flat;
  CHECK_OK(dsckpt_state_add_tensor(state, "optimizer/moments", part->flat, DSCKPT_F64, &count, 1,
                                   &options, &error));
  CHECK_OK(dsckpt_state_add_bytes(state, "rng", part->rng, sizeof part->rng, &error));
  CHECK_OK(dsckpt_state_rank_own(state, "rng", rank, &error));
  CHECK_OK(dsckpt_state_add_attribute_int(state, "step", &part->step, &error));
  return state;
}

/* What one rank of the job does. */
static void save_steps(int rank) {
  dsckpt_error error = {0};
  dsckpt_engine_options small = DSCKPT_INIT(dsckpt_engine_options);
  small.pool_bytes = 1 << 20;
  dsckpt_engine* engine = NULL;
  CHECK_OK(dsckpt_engine_create(&small, &engine, &error));
  dsckpt_checkpoint_writer_options options = DSCKPT_INIT(dsckpt_checkpoint_writer_options);
  options.run_directory = "run";
  options.shared_directory = "meeting";
  options.rank = rank;
  options.ranks = kRanks;
  options.join_timeout_ns = options.timeout_ns = INT64_C(60000000000);
  dsckpt_checkpoint_writer* writer = NULL;
  CHECK_OK(dsckpt_checkpoint_writer_create(engine, &options, &writer, &error));
  struct part part;
  for (int64_t step = 1; step <= 2; ++step) {
    split(&part, rank, kRanks);
    fill(&part, rank, step);
    dsckpt_state* state = describe(&part, (uint32_t)rank);
    dsckpt_checkpoint_save* save = NULL;
    const dsckpt_vendor_entry entry = {"com.example.audit", "rank", 4};
    dsckpt_save_options file = DSCKPT_INIT(dsckpt_save_options);
    file.vendor = &entry;
    file.vendor_count = 1;
    dsckpt_checkpoint_save_options how = DSCKPT_INIT(dsckpt_checkpoint_save_options);
    how.file = step == 2 ? &file : NULL;
    how.statistics = 1;
    CHECK_OK(dsckpt_checkpoint_writer_save(writer, step, state, &how, &save, &error));
    CHECK_OK(dsckpt_checkpoint_save_wait_captured(save, &error));
    CHECK_OK(dsckpt_checkpoint_save_wait_durable(save, &error));
    dsckpt_checkpoint_save_destroy(save);
    dsckpt_state_destroy(state);
  }
  CHECK_OK(dsckpt_checkpoint_writer_wait_durable(writer, &error));
  dsckpt_checkpoint_writer_destroy(writer);
  dsckpt_engine_destroy(engine);
}

static void save_with_all_ranks(void) {
  pid_t children[kRanks];
  for (int rank = 0; rank < kRanks; ++rank) {
    children[rank] = fork();
    CHECK(children[rank] >= 0);
    if (children[rank] != 0) continue;
    save_steps(rank);
    fflush(NULL);
    _exit(failures == 0 ? 0 : 1);
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    int status = -1;
    CHECK(waitpid(children[rank], &status, 0) == children[rank]);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

static int is_text(dsckpt_text text, const char* wanted) {
  return text.bytes == strlen(wanted) && memcmp(text.data, wanted, text.bytes) == 0;
}

static void list_run(void) {
  dsckpt_error error = {0};
  dsckpt_run* run = NULL;
  CHECK_CODE(dsckpt_run_open("nothing", &run, &error), DSCKPT_NOT_FOUND);
  CHECK(run == NULL);
  CHECK_OK(dsckpt_run_open("run", &run, &error));
  CHECK(dsckpt_run_checkpoint_count(run) == 2);
  CHECK(dsckpt_run_checkpoint_count(NULL) == 0);
  dsckpt_run_entry entry = DSCKPT_INIT(dsckpt_run_entry);
  CHECK_OK(dsckpt_run_checkpoint(run, 1, &entry, &error));
  CHECK(is_text(entry.name, "step-0000000002"));
  CHECK(entry.step == 2 && entry.serial == 2 && entry.parent == 1 && entry.shard_count == kRanks);
  CHECK(entry.bytes > 0 && entry.abandoned == 0);
  CHECK_CODE(dsckpt_run_checkpoint(run, 2, &entry, &error), DSCKPT_NOT_FOUND);

  dsckpt_checkpoint* checkpoint = NULL;
  dsckpt_checkpoint_info info = DSCKPT_INIT(dsckpt_checkpoint_info);
  CHECK_OK(dsckpt_run_open_latest(run, NULL, &checkpoint, &error));
  CHECK_OK(dsckpt_checkpoint_get_info(checkpoint, &info, &error));
  CHECK(info.step == 2);
  dsckpt_checkpoint_destroy(checkpoint);
  checkpoint = NULL;
  CHECK_OK(dsckpt_run_open_step(run, 1, NULL, &checkpoint, &error));
  CHECK_OK(dsckpt_checkpoint_get_info(checkpoint, &info, &error));
  CHECK(info.step == 1 && info.serial == 1);
  dsckpt_checkpoint_destroy(checkpoint);
  checkpoint = NULL;
  CHECK_CODE(dsckpt_run_open_step(run, 3, NULL, &checkpoint, &error), DSCKPT_NOT_FOUND);
  CHECK(checkpoint == NULL);
  dsckpt_run_destroy(run);
  dsckpt_run_destroy(NULL);
}

static dsckpt_checkpoint* open_second(void) {
  dsckpt_error error = {0};
  dsckpt_checkpoint* checkpoint = NULL;
  dsckpt_checkpoint_options at_once = DSCKPT_INIT(dsckpt_checkpoint_options);
  at_once.retry_ns = -1;
  CHECK_OK(dsckpt_checkpoint_open("run/step-0000000002", &at_once, &checkpoint, &error));
  return checkpoint;
}

static void read_tensors(void) {
  dsckpt_error error = {0};
  dsckpt_checkpoint* checkpoint = open_second();
  dsckpt_checkpoint_info info = DSCKPT_INIT(dsckpt_checkpoint_info);
  CHECK_OK(dsckpt_checkpoint_get_info(checkpoint, &info, &error));
  CHECK(is_text(info.path, "run/step-0000000002"));
  CHECK(info.ranks == kRanks && info.shard_count == kRanks && info.tensor_count == 2);
  CHECK(info.has_manifest == 1);
  CHECK(info.has_content == 1);
  CHECK((info.content_low | info.content_high) != 0);
  CHECK(info.manifest_parts == 0);

  dsckpt_logical_tensor_info tensor = DSCKPT_INIT(dsckpt_logical_tensor_info);
  CHECK_OK(dsckpt_checkpoint_tensor(checkpoint, 0, &tensor, &error));
  CHECK(is_text(tensor.name, "model/matrix"));
  CHECK(tensor.rank == 2 && tensor.shape[0] == kRows && tensor.shape[1] == kColumns);
  CHECK(tensor.dtype == DSCKPT_F32 && tensor.bytes == kRows * kColumns * 4);
  CHECK(tensor.piece_count == kRanks);
  CHECK_OK(dsckpt_checkpoint_find_tensor(checkpoint, "optimizer/moments", &tensor, &error));
  CHECK(tensor.ordinal == 1 && tensor.rank == 1 && tensor.dtype == DSCKPT_F64);
  CHECK_CODE(dsckpt_checkpoint_tensor(checkpoint, 2, &tensor, &error), DSCKPT_NOT_FOUND);
  CHECK_CODE(dsckpt_checkpoint_find_tensor(checkpoint, "x", &tensor, &error), DSCKPT_NOT_FOUND);

  float matrix[kRows][kColumns] = {{0}};
  CHECK_OK(dsckpt_checkpoint_read(checkpoint, "model/matrix", matrix, sizeof matrix, &error));
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) CHECK(matrix[r][c] == (float)(200 + r * kColumns + c));
  }
  CHECK_CODE(dsckpt_checkpoint_read(checkpoint, "model/matrix", matrix, 5, &error),
             DSCKPT_INVALID_ARGUMENT);
  CHECK_CODE(dsckpt_checkpoint_read(checkpoint, "model/matrix", NULL, sizeof matrix, &error),
             DSCKPT_INVALID_ARGUMENT);
  /* Rows 2 and 3 are of different ranks. */
  const int64_t begin[2] = {2, 1}, end[2] = {4, 3};
  float box[2][2] = {{0}};
  CHECK_OK(dsckpt_checkpoint_read_box(checkpoint, "model/matrix", begin, end, 2, box, sizeof box,
                                      &error));
  CHECK(box[0][0] == 209 && box[0][1] == 210 && box[1][0] == 213 && box[1][1] == 214);
  CHECK_CODE(
      dsckpt_checkpoint_read_box(checkpoint, "model/matrix", NULL, end, 2, box, sizeof box, &error),
      DSCKPT_INVALID_ARGUMENT);

  /* Objects stand in shards. */
  uint32_t rank = 99;
  CHECK_OK(dsckpt_checkpoint_shard_rank(checkpoint, 1, &rank, &error));
  CHECK(rank == 1);
  CHECK_CODE(dsckpt_checkpoint_shard_rank(checkpoint, 2, &rank, &error), DSCKPT_NOT_FOUND);
  dsckpt_file* shard = NULL;
  CHECK_CODE(dsckpt_checkpoint_open_shard(checkpoint, 2, &shard, &error), DSCKPT_NOT_FOUND);
  CHECK_OK(dsckpt_checkpoint_open_shard(checkpoint, 1, &shard, &error));
  CHECK(dsckpt_file_vendor_count(shard) == 1);
  dsckpt_tensor_statistics statistics = DSCKPT_INIT(dsckpt_tensor_statistics);
  CHECK_OK(dsckpt_file_tensor_statistics(shard, "model/matrix", &statistics, &error));
  CHECK(statistics.nan == 0 && statistics.max == 200 + kRows * kColumns - 1);
  CHECK_CODE(dsckpt_checkpoint_tensor_statistics(checkpoint, "model/matrix", &statistics, &error),
             DSCKPT_NOT_FOUND);
  dsckpt_checkpoint_destroy(checkpoint);
  char rng[8];
  CHECK(dsckpt_file_object_count(shard) == 1);
  CHECK_OK(dsckpt_file_read_object(shard, "rng", rng, sizeof rng, &error));
  CHECK(memcmp(rng, "bbbbbbbb", sizeof rng) == 0);
  dsckpt_file_destroy(shard);
}

/* Three ranks read what two wrote; the third has no random state of its own. */
static void restore_with_more_ranks(void) {
  dsckpt_error error = {0};
  dsckpt_checkpoint* checkpoint = open_second();
  for (int rank = 0; rank < 3; ++rank) {
    struct part part, wanted;
    split(&part, rank, 3);
    split(&wanted, rank, 3);
    fill(&wanted, rank, 2);
    dsckpt_state* state = describe(&part, (uint32_t)rank);
    const int code = dsckpt_checkpoint_restore(checkpoint, state, (uint32_t)rank, NULL, &error);
    if (rank < kRanks) {
      CHECK(code == DSCKPT_OK);
      CHECK(memcmp(&part, &wanted, sizeof part) == 0);
    } else {
      CHECK(code == DSCKPT_NOT_FOUND && strstr(error.message, "rng") != NULL);
    }
    dsckpt_state_destroy(state);
  }
  CHECK_CODE(dsckpt_checkpoint_restore(checkpoint, NULL, 0, NULL, &error), DSCKPT_INVALID_ARGUMENT);
  dsckpt_checkpoint_destroy(checkpoint);
}

/// A copy whose JSON header says another dtype of one tensor.
static void damage_header(const char* from, const char* to) {
  static char bytes[1 << 20];
  FILE* file = fopen(from, "rb");
  const size_t size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  CHECK(size > 8 && size < sizeof bytes);
  size_t at = 0;
  while (at + 5 < size && memcmp(bytes + at, "\"F32\"", 5) != 0) ++at;
  memcpy(bytes + at, "\"I32\"", 5);
  file = fopen(to, "wb");
  CHECK(fwrite(bytes, 1, size, file) == size);
  fclose(file);
}

static void merge(void) {
  dsckpt_error error = {0};
  const char* input = "run/step-0000000002";
  dsckpt_merge_report report = DSCKPT_INIT(dsckpt_merge_report);
  dsckpt_merge_options dry = DSCKPT_INIT(dsckpt_merge_options);
  dry.dry_run = 1;
  CHECK_OK(dsckpt_merge(&input, 1, "whole.dsckpt", &dry, &report, &error));
  CHECK(access("whole.dsckpt", F_OK) != 0);
  CHECK(report.shards == kRanks && report.pieces == 4 && report.tensors == 2);
  CHECK(report.bytes == kRows * kColumns * 4 + kFlat * 8 && report.files == 1);
  CHECK(report.objects == kRanks && report.rank_own == kRanks);

  CHECK_OK(dsckpt_merge(&input, 1, "whole.dsckpt", NULL, NULL, &error));
  CHECK_CODE(dsckpt_merge(&input, 1, "whole.dsckpt", NULL, NULL, &error), DSCKPT_ALREADY_EXISTS);
  dsckpt_file* file = NULL;
  CHECK_OK(dsckpt_file_open("whole.dsckpt", NULL, &file, &error));
  double flat[kFlat];
  CHECK_OK(dsckpt_file_read(file, "optimizer/moments", flat, sizeof flat, &error));
  for (int i = 0; i < kFlat; ++i) CHECK(flat[i] == (double)i / 2);
  dsckpt_object_info own = DSCKPT_INIT(dsckpt_object_info);
  CHECK_OK(dsckpt_file_find_object(file, "ranks/1/rng", &own, &error));
  dsckpt_file_destroy(file);

  damage_header("whole.dsckpt", "damaged.dsckpt");
  input = "damaged.dsckpt";
  CHECK_CODE(dsckpt_merge(&input, 1, "saved.dsckpt", NULL, NULL, &error), DSCKPT_MISMATCH);
  dsckpt_merge_options rescue = DSCKPT_INIT(dsckpt_merge_options);
  rescue.ignore_header = 1;
  CHECK_OK(dsckpt_merge(&input, 1, "saved.dsckpt", &rescue, &report, &error));
  CHECK(report.tensors == 2 && report.objects == kRanks);
  dsckpt_checkpoint* damaged = NULL;
  CHECK_CODE(dsckpt_checkpoint_open(input, NULL, &damaged, &error), DSCKPT_MISMATCH);
  dsckpt_checkpoint_options by_index = DSCKPT_INIT(dsckpt_checkpoint_options);
  by_index.ignore_header = 1;
  CHECK_OK(dsckpt_checkpoint_open(input, &by_index, &damaged, &error));
  CHECK_OK(dsckpt_checkpoint_read(damaged, "optimizer/moments", flat, sizeof flat, &error));
  CHECK(flat[2] == 1);
  dsckpt_checkpoint_destroy(damaged);
  input = "run/step-0000000002";

  const char* filters[] = {"model/*"};
  const char* renames[] = {"s/matrix/m/"};
  dsckpt_merge_options weights = DSCKPT_INIT(dsckpt_merge_options);
  weights.container = DSCKPT_CONTAINER_SAFETENSORS;
  weights.filters = filters;
  weights.filter_count = 1;
  weights.strip_prefix = "model/";
  weights.renames = renames;
  weights.rename_count = 1;
  weights.dtype = DSCKPT_F64;
  CHECK_OK(dsckpt_merge(&input, 1, "weights.safetensors", &weights, &report, &error));
  CHECK(report.tensors == 1 && report.cast == 1 && report.bytes == kRows * kColumns * 8);
  CHECK(report.dropped_objects == kRanks);
  CHECK_OK(dsckpt_file_open("weights.safetensors", NULL, &file, &error));
  double matrix[kRows][kColumns];
  CHECK_OK(dsckpt_file_read(file, "m", matrix, sizeof matrix, &error));
  CHECK(matrix[5][3] == 223);
  dsckpt_file_destroy(file);

  const char* nothing[] = {NULL};
  CHECK_CODE(dsckpt_merge(nothing, 1, "x", NULL, NULL, &error), DSCKPT_INVALID_ARGUMENT);
  CHECK_CODE(dsckpt_merge(NULL, 0, "x", NULL, NULL, &error), DSCKPT_INVALID_ARGUMENT);
  weights.dtype = DSCKPT_I8;
  CHECK_CODE(dsckpt_merge(&input, 1, "x", &weights, NULL, &error), DSCKPT_INVALID_ARGUMENT);
  CHECK(access("x", F_OK) != 0);
}

static int stop(void* user) { return ++*(int*)user > 0; }

static void cancel(void) {
  dsckpt_error error = {0};
  const char* input = "run/step-0000000002";
  int asked = 0;
  dsckpt_merge_options options = DSCKPT_INIT(dsckpt_merge_options);
  options.cancelled = stop;
  options.user = &asked;
  CHECK_CODE(dsckpt_merge(&input, 1, "cancelled", &options, NULL, &error), DSCKPT_CANCELLED);
  CHECK(asked == 1 && access("cancelled", F_OK) != 0);
  dsckpt_verify_checkpoint_options verify = DSCKPT_INIT(dsckpt_verify_checkpoint_options);
  verify.cancelled = stop;
  verify.user = &asked;
  CHECK_CODE(dsckpt_verify_checkpoint(input, &verify, &error), DSCKPT_CANCELLED);
  CHECK(asked == 2);
}

struct found {
  int problems;
  char path[64], kind[32], item[32];
  uint64_t done;
};

static void on_problem(void* user, const char* path, const dsckpt_problem* problem) {
  struct found* found = user;
  ++found->problems;
  snprintf(found->path, sizeof found->path, "%s", path);
  snprintf(found->kind, sizeof found->kind, "%s", problem->kind);
  snprintf(found->item, sizeof found->item, "%s", problem->item);
}

static void on_progress(void* user, const char* path, uint64_t done, uint64_t total) {
  struct found* found = user;
  CHECK(strstr(path, "shard-0000") != NULL && done <= total);
  found->done = done;
}

static void verify(void) {
  dsckpt_error error = {0};
  struct found found = {0};
  dsckpt_verify_checkpoint_options options = DSCKPT_INIT(dsckpt_verify_checkpoint_options);
  options.on_problem = on_problem;
  options.on_progress = on_progress;
  options.user = &found;
  CHECK_OK(dsckpt_verify_checkpoint("run", &options, &error));
  CHECK(found.problems == 0 && found.done > 0);

  const char* path = "run/step-0000000002/shard-00001.dsckpt";
  dsckpt_file* file = NULL;
  dsckpt_tensor_info tensor = DSCKPT_INIT(dsckpt_tensor_info);
  CHECK_OK(dsckpt_file_open(path, NULL, &file, &error));
  CHECK_OK(dsckpt_file_find_tensor(file, "model/matrix", &tensor, &error));
  const long offset = (long)tensor.offset;
  dsckpt_file_destroy(file);
  FILE* bytes = fopen(path, "r+b");
  CHECK(bytes != NULL);
  fseek(bytes, offset, SEEK_SET);
  fputc(0x5A, bytes);
  fclose(bytes);
  CHECK_CODE(dsckpt_verify_checkpoint("run/step-0000000002", &options, &error), DSCKPT_CORRUPT);
  CHECK(found.problems == 1 && strcmp(found.path, path) == 0);
  CHECK(strcmp(found.kind, "checksum") == 0 && strcmp(found.item, "model/matrix") == 0);
  CHECK(strstr(error.message, path) != NULL && error.offset == offset);

  CHECK(remove(path) == 0);
  CHECK_CODE(dsckpt_verify_checkpoint("run/step-0000000002", &options, &error), DSCKPT_INCOMPLETE);
  CHECK(found.problems == 2 && strcmp(found.kind, "Incomplete") == 0);
  CHECK(found.item[0] == '\0');
  CHECK_CODE(dsckpt_verify_checkpoint("nothing", NULL, &error), DSCKPT_NOT_FOUND);
  CHECK_CODE(dsckpt_verify_checkpoint(NULL, NULL, &error), DSCKPT_INVALID_ARGUMENT);
}

static void mistakes(void) {
  dsckpt_error error = {0};
  dsckpt_state* state = NULL;
  float value[2] = {1, 2};
  const int64_t shape[1] = {2};
  CHECK_OK(dsckpt_state_create(&state, &error));
  dsckpt_tensor_options options = DSCKPT_INIT(dsckpt_tensor_options);
  dsckpt_piece piece = {0};
  options.piece_count = 1;
  CHECK_CODE(dsckpt_state_add_tensor(state, "x", value, DSCKPT_F32, shape, 1, &options, &error),
             DSCKPT_INVALID_ARGUMENT); /* no pieces */
  options.pieces = &piece;
  CHECK_CODE(dsckpt_state_add_tensor(state, "x", value, DSCKPT_F32, shape, 1, &options, &error),
             DSCKPT_INVALID_ARGUMENT); /* no name */
  piece.logical_name = "x";
  piece.logical_shape = shape;
  piece.logical_rank = 1;
  CHECK_CODE(dsckpt_state_add_tensor(state, "x", value, DSCKPT_F32, shape, 1, &options, &error),
             DSCKPT_INVALID_ARGUMENT); /* no box */
  piece.form = 2;
  CHECK_CODE(dsckpt_state_add_tensor(state, "x", value, DSCKPT_F32, shape, 1, &options, &error),
             DSCKPT_INVALID_ARGUMENT);
  dsckpt_state_destroy(state);

  /* What is const is saved, and not restored into. */
  const float constant[2] = {3, 4};
  CHECK_OK(dsckpt_state_create(&state, &error));
  CHECK_OK(dsckpt_state_add_const_tensor(state, "x", constant, DSCKPT_F32, shape, 1, NULL, &error));
  CHECK_OK(dsckpt_save_file("const.dsckpt", state, NULL, &error));
  dsckpt_checkpoint* single = NULL;
  CHECK_OK(dsckpt_checkpoint_open("const.dsckpt", NULL, &single, &error));
  CHECK_OK(dsckpt_checkpoint_read(single, "x", value, sizeof value, &error));
  CHECK(value[0] == 3 && value[1] == 4);
  CHECK(dsckpt_checkpoint_restore(single, state, 0, NULL, &error) != DSCKPT_OK);
  dsckpt_checkpoint_destroy(single);
  dsckpt_state_destroy(state);

  dsckpt_checkpoint* none = NULL;
  CHECK_CODE(dsckpt_checkpoint_open("nothing", NULL, &none, &error), DSCKPT_NOT_FOUND);
  CHECK_CODE(dsckpt_checkpoint_open(NULL, NULL, &none, &error), DSCKPT_INVALID_ARGUMENT);
  CHECK(none == NULL);
  dsckpt_checkpoint_writer* writer = NULL;
  CHECK_CODE(dsckpt_checkpoint_writer_create(NULL, NULL, &writer, &error), DSCKPT_INVALID_ARGUMENT);
  CHECK_CODE(dsckpt_checkpoint_writer_wait_durable(NULL, &error), DSCKPT_INVALID_ARGUMENT);
  CHECK_CODE(dsckpt_checkpoint_save_wait_durable(NULL, &error), DSCKPT_INVALID_ARGUMENT);
  dsckpt_checkpoint_writer_destroy(NULL);
  dsckpt_checkpoint_save_destroy(NULL);
  dsckpt_checkpoint_destroy(NULL);
}

static int remove_one(const char* path, const struct stat* info, int kind, struct FTW* at) {
  (void)info;
  (void)kind;
  (void)at;
  return remove(path);
}

int main(void) {
  char directory[] = "/tmp/dsckpt-c-XXXXXX";
  if (mkdtemp(directory) == NULL || chdir(directory) != 0) {
    perror(directory);
    return 1;
  }
  save_with_all_ranks();
  list_run();
  read_tensors();
  restore_with_more_ranks();
  merge();
  cancel();
  mistakes();
  verify(); /* breaks the checkpoint */
  if (chdir("/") != 0) ++failures;
  nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
  return failures == 0 ? 0 : 1;
}
