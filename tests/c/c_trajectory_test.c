/* A run through dsckpt/c_trajectory.h, as a C11 program: opened as a directory and as a list, asked
 * by its indexes, and read. Runs in a directory of its own. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "dsckpt/c_trajectory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/c/check.h"

enum { kSteps = 4, kRows = 3, kColumns = 5 };

static int is_text(dsckpt_text text, const char* wanted) {
  return text.bytes == strlen(wanted) && memcmp(text.data, wanted, text.bytes) == 0;
}

static void file_of(int i, char* out) { snprintf(out, 32, "run/step%d.dsckpt", 10 * i); }

/* Steps 0, 10, 20 and 30. "moves" does, and has a NaN at last; "rests" never changes; "late" is
 * there from step 20 on. */
static void save_run(void) {
  dsckpt_error error = {0};
  CHECK(mkdir("run", 0700) == 0);
  const int64_t shape[2] = {kRows, kColumns};
  for (int i = 0; i < kSteps; ++i) {
    float moves[kRows * kColumns], rests[kRows * kColumns];
    double late = i;
    int64_t step = 10 * i;
    for (int k = 0; k < kRows * kColumns; ++k) {
      moves[k] = (float)(k + i);
      rests[k] = (float)k;
    }
    if (i == 3) moves[7] = NAN;
    dsckpt_state* state = NULL;
    CHECK_OK(dsckpt_state_create(&state, &error));
    CHECK_OK(dsckpt_state_add_tensor(state, "moves", moves, DSCKPT_F32, shape, 2, NULL, &error));
    CHECK_OK(dsckpt_state_add_tensor(state, "rests", rests, DSCKPT_F32, shape, 2, NULL, &error));
    if (i >= 2) {
      CHECK_OK(dsckpt_state_add_tensor(state, "late", &late, DSCKPT_F64, NULL, 0, NULL, &error));
    }
    CHECK_OK(dsckpt_state_add_attribute_int(state, "step", &step, &error));
    dsckpt_save_options options = DSCKPT_INIT(dsckpt_save_options);
    options.statistics = i > 0;
    char path[32];
    file_of(i, path);
    CHECK_OK(dsckpt_save_file(path, state, &options, &error));
    dsckpt_state_destroy(state);
  }
}

static void look_at_checkpoints(const dsckpt_trajectory* run) {
  dsckpt_error error = {0};
  CHECK(dsckpt_trajectory_checkpoint_count(run) == kSteps);
  CHECK(dsckpt_trajectory_checkpoint_count(NULL) == 0);
  CHECK(dsckpt_trajectory_skipped_count(NULL) == 0);
  dsckpt_trajectory_checkpoint_info info = DSCKPT_INIT(dsckpt_trajectory_checkpoint_info);
  CHECK_OK(dsckpt_trajectory_checkpoint(run, 2, &info, &error));
  CHECK(is_text(info.path, "run/step20.dsckpt"));
  CHECK(is_text(info.operand, "run@20"));
  CHECK(info.has_step && info.step == 20 && info.step_source == DSCKPT_STEP_ATTRIBUTE);
  const uint64_t tree = info.tree_low;
  CHECK(info.has_tree && tree != 0);
  CHECK_OK(dsckpt_trajectory_checkpoint(run, 1, &info, &error));
  CHECK(info.has_tree && info.tree_low != tree);
  CHECK_CODE(dsckpt_trajectory_checkpoint(run, kSteps, &info, &error), DSCKPT_NOT_FOUND);
  CHECK_CODE(dsckpt_trajectory_checkpoint(NULL, 0, &info, &error), DSCKPT_INVALID_ARGUMENT);

  CHECK(dsckpt_trajectory_skipped_count(run) == 1);
  dsckpt_text path, reason;
  CHECK_OK(dsckpt_trajectory_skipped(run, 0, &path, &reason, &error));
  CHECK(is_text(path, "run/other"));
  CHECK(reason.bytes > 0);
  CHECK_CODE(dsckpt_trajectory_skipped(run, 1, &path, &reason, &error), DSCKPT_NOT_FOUND);
}

static void look_at_tensors(const dsckpt_trajectory* run) {
  dsckpt_error error = {0};
  CHECK(dsckpt_trajectory_tensor_count(run) == 3);
  CHECK(dsckpt_trajectory_tensor_count(NULL) == 0);
  dsckpt_trajectory_tensor_info info = DSCKPT_INIT(dsckpt_trajectory_tensor_info);
  CHECK_OK(dsckpt_trajectory_tensor(run, 0, &info, &error));
  CHECK(is_text(info.name, "late"));
  CHECK(info.first == 2 && info.last == 3 && info.checkpoints == 2 && info.forms == 1);
  CHECK(info.rank == 0 && info.dtype == DSCKPT_F64);
  uint32_t moves = 9, rests = 9;
  CHECK_OK(dsckpt_trajectory_find_tensor(run, "moves", &moves, &error));
  CHECK_OK(dsckpt_trajectory_find_tensor(run, "rests", &rests, &error));
  CHECK(moves == 1 && rests == 2);
  CHECK_CODE(dsckpt_trajectory_find_tensor(run, "none", &moves, &error), DSCKPT_NOT_FOUND);
  CHECK_CODE(dsckpt_trajectory_tensor(run, 3, &info, &error), DSCKPT_NOT_FOUND);

  dsckpt_trajectory_form form = DSCKPT_INIT(dsckpt_trajectory_form), other = form;
  CHECK_OK(dsckpt_trajectory_get_form(run, 0, rests, &form, &error));
  CHECK_OK(dsckpt_trajectory_get_form(run, 3, rests, &other, &error));
  CHECK(form.rank == 2 && form.shape[0] == kRows && form.shape[1] == kColumns);
  CHECK(form.dtype == DSCKPT_F32 && form.bytes == sizeof(float) * kRows * kColumns);
  CHECK(form.has_digest && form.has_content && form.digest_low == form.content_low);
  CHECK(form.digest_low == other.digest_low && form.digest_high == other.digest_high);
  CHECK_OK(dsckpt_trajectory_get_form(run, 3, moves, &other, &error));
  CHECK(form.digest_low != other.digest_low);
  CHECK_CODE(dsckpt_trajectory_get_form(run, 0, 0, &form, &error), DSCKPT_NOT_FOUND);
  CHECK(strstr(error.message, "run/step0.dsckpt has no tensor 'late'") != NULL);

  dsckpt_tensor_statistics numbers = DSCKPT_INIT(dsckpt_tensor_statistics);
  CHECK_OK(dsckpt_trajectory_statistics(run, 3, moves, &numbers, &error));
  CHECK(numbers.nan == 1 && numbers.max == kRows * kColumns - 1 + 3);
  CHECK_CODE(dsckpt_trajectory_statistics(run, 0, moves, &numbers, &error), DSCKPT_NOT_FOUND);
}

static void read_elements(dsckpt_trajectory* run) {
  dsckpt_error error = {0};
  float row[kColumns] = {0};
  CHECK_OK(dsckpt_trajectory_read(run, 2, 1, sizeof row, row, sizeof row, &error));
  CHECK(row[0] == kColumns + 2 && row[4] == kColumns + 6);
  CHECK(dsckpt_trajectory_read(run, 2, 1, 1000, row, sizeof row, &error) != DSCKPT_OK);
  CHECK_CODE(dsckpt_trajectory_read(run, 2, 1, 0, NULL, 4, &error), DSCKPT_INVALID_ARGUMENT);
  CHECK_CODE(dsckpt_trajectory_read(run, 0, 0, 0, row, 8, &error), DSCKPT_NOT_FOUND);
  dsckpt_view* view = NULL;
  CHECK_OK(dsckpt_trajectory_view(run, 3, 2, &view, &error));
  dsckpt_checkpoint* checkpoint = NULL;
  CHECK_OK(dsckpt_trajectory_open_checkpoint(run, 1, &checkpoint, &error));
  dsckpt_trajectory_destroy(run);
  /* What was opened from it stays valid. */
  CHECK(dsckpt_view_bytes(view) == sizeof(float) * kRows * kColumns);
  CHECK(((const float*)dsckpt_view_data(view))[14] == 14);
  dsckpt_checkpoint_info info = DSCKPT_INIT(dsckpt_checkpoint_info);
  CHECK_OK(dsckpt_checkpoint_get_info(checkpoint, &info, &error));
  CHECK(info.step == 10 && info.tensor_count == 2);
  dsckpt_checkpoint_destroy(checkpoint);
  dsckpt_view_destroy(view);
}

struct seen {
  int count, nan, frozen, added;
};

static void note(void* user, const dsckpt_trajectory_event* event) {
  struct seen* seen = user;
  ++seen->count;
  if (event->kind == DSCKPT_TRAJECTORY_NAN) {
    ++seen->nan;
    CHECK(event->checkpoint == 3 && event->other == 2 && event->tensor == 1);
    CHECK(event->has_step && event->step == 30 && event->value == 1 && isnan(event->threshold));
  }
  if (event->kind == DSCKPT_TRAJECTORY_FROZEN) {
    ++seen->frozen;
    CHECK(event->tensor == 2 && event->other == 0 && isnan(event->value));
  }
  if (event->kind == DSCKPT_TRAJECTORY_ADDED) {
    ++seen->added;
    CHECK(event->tensor == 0 && event->checkpoint == 2);
  }
}

static void hear_of_events(const dsckpt_trajectory* run) {
  dsckpt_error error = {0};
  struct seen seen = {0};
  CHECK_OK(dsckpt_trajectory_find_events(run, note, &seen, &error));
  CHECK(seen.count == 3 && seen.nan == 1 && seen.frozen == 1 && seen.added == 1);
  CHECK_CODE(dsckpt_trajectory_find_events(run, NULL, NULL, &error), DSCKPT_INVALID_ARGUMENT);
  CHECK(strcmp(dsckpt_trajectory_event_name(DSCKPT_TRAJECTORY_MISSING_STEP), "missing_step") == 0);
  CHECK(strcmp(dsckpt_trajectory_event_name(DSCKPT_TRAJECTORY_COARSE), "coarse") == 0);
  CHECK(strcmp(dsckpt_trajectory_event_name(99), "unknown") == 0);
  CHECK(strcmp(dsckpt_trajectory_event_name(-1), "unknown") == 0);
}

static void open_lists(void) {
  dsckpt_error error = {0};
  dsckpt_trajectory* run = NULL;
  const char* const paths[] = {"run@-1", "run/step0.dsckpt"};
  CHECK_OK(dsckpt_trajectory_open(paths, 2, NULL, &run, &error));
  dsckpt_trajectory_checkpoint_info info = DSCKPT_INIT(dsckpt_trajectory_checkpoint_info);
  CHECK_OK(dsckpt_trajectory_checkpoint(run, 1, &info, &error));
  CHECK(dsckpt_trajectory_checkpoint_count(run) == 2 && info.step == 30);
  dsckpt_trajectory_destroy(run);

  const int64_t steps[] = {5, 7};
  dsckpt_trajectory_options options = DSCKPT_INIT(dsckpt_trajectory_options);
  options.steps = steps;
  options.threads = 1;
  options.max_open_files = 1;
  CHECK_OK(dsckpt_trajectory_open(paths, 2, &options, &run, &error));
  CHECK_OK(dsckpt_trajectory_checkpoint(run, 0, &info, &error));
  CHECK(info.step == 5 && info.step_source == DSCKPT_STEP_UNKNOWN);
  CHECK(is_text(info.path, "run/step30.dsckpt"));
  dsckpt_trajectory_destroy(run);

  options.steps = NULL;
  options.step_from = "name:p([0-9]+)";
  CHECK_OK(dsckpt_trajectory_open(paths, 2, &options, &run, &error));
  CHECK_OK(dsckpt_trajectory_checkpoint(run, 1, &info, &error));
  CHECK(info.step == 30 && info.step_source == DSCKPT_STEP_NAME);
  dsckpt_trajectory_destroy(run);
}

static void open_wrongly(void) {
  dsckpt_error error = {0};
  dsckpt_trajectory* run = NULL;
  const char* const missing[] = {"run@15"};
  CHECK_CODE(dsckpt_trajectory_open(missing, 1, NULL, &run, &error), DSCKPT_NOT_FOUND);
  CHECK(strstr(error.message, "next to it are 10 and 20") != NULL);
  const char* const null[] = {NULL};
  CHECK_CODE(dsckpt_trajectory_open(null, 1, NULL, &run, &error), DSCKPT_INVALID_ARGUMENT);
  CHECK_CODE(dsckpt_trajectory_open(NULL, 1, NULL, &run, &error), DSCKPT_INVALID_ARGUMENT);
  CHECK_CODE(dsckpt_trajectory_open(missing, 1, NULL, NULL, &error), DSCKPT_INVALID_ARGUMENT);
  CHECK(run == NULL);
  dsckpt_trajectory_destroy(NULL);
}

int main(void) {
  char directory[] = "c_trajectory.XXXXXX";
  if (mkdtemp(directory) == NULL || chdir(directory) != 0) return 2;
  save_run();
  CHECK(mkdir("run/other", 0700) == 0);
  dsckpt_error error = {0};
  dsckpt_trajectory* run = NULL;
  const char* const paths[] = {"run"};
  CHECK_OK(dsckpt_trajectory_open(paths, 1, NULL, &run, &error));
  if (run != NULL) {
    look_at_checkpoints(run);
    look_at_tensors(run);
    hear_of_events(run);
    read_elements(run);
    open_lists();
    open_wrongly();
  }
  for (int i = 0; i < kSteps; ++i) {
    char path[32];
    file_of(i, path);
    remove(path);
  }
  remove("run/other");
  remove("run");
  if (chdir("..") != 0 || rmdir(directory) != 0) ++failures; /* nothing else may be left */
  if (failures == 0) puts("ok");
  return failures != 0;
}
