/* Checkpointing from C: fits y = 3x + 1 by gradient descent, saves every 100 steps, and goes on
   from the last checkpoint when it is started again.

     train_c FILE [STEPS] */

#include <stdio.h>
#include <stdlib.h>

#include "dsckpt/c.h"

/* What the checkpoint holds. */
struct job {
  double slope, intercept; /* changed by the update only */
  uint64_t random;         /* changed whenever a sample is drawn */
  int64_t step;
};

static double draw(struct job* job) { /* in [0, 1) */
  job->random = job->random * 6364136223846793005u + 1442695040888963407u;
  return (double)(job->random >> 11) * 0x1p-53;
}

static dsckpt_state* describe(struct job* job, dsckpt_error* error) {
  dsckpt_state* state = NULL;
  if (dsckpt_state_create(&state, error) != DSCKPT_OK) return NULL;
  /* An error here is kept and reported by the save or restore. */
  dsckpt_state_add_tensor(state, "slope", &job->slope, DSCKPT_F64, NULL, 0, NULL, NULL);
  dsckpt_state_add_tensor(state, "intercept", &job->intercept, DSCKPT_F64, NULL, 0, NULL, NULL);
  dsckpt_state_add_bytes(state, "random", &job->random, sizeof job->random, NULL);
  dsckpt_state_add_attribute_int(state, "step", &job->step, NULL);
  return state;
}

/* DSCKPT_NOT_FOUND: nothing to resume from. */
static int resume(const char* path, const dsckpt_state* state, dsckpt_error* error) {
  dsckpt_file* file = NULL;
  int code = dsckpt_file_open(path, NULL, &file, error);
  if (code == DSCKPT_OK) code = dsckpt_file_restore(file, state, NULL, error);
  dsckpt_file_destroy(file);
  return code;
}

static int train(dsckpt_engine* engine, const char* path, struct job* job,
                 const dsckpt_state* state, int64_t steps, dsckpt_error* error) {
  int code = DSCKPT_OK;
  while (job->step < steps && code == DSCKPT_OK) {
    const double x = draw(job);
    const double residual = job->slope * x + job->intercept - (3 * x + 1);
    code = dsckpt_engine_fence(engine, error); /* the update changes what a save may still read */
    job->slope -= 0.1 * residual * x;
    job->intercept -= 0.1 * residual;
    if (++job->step % 100 == 0 && code == DSCKPT_OK) {
      code = dsckpt_engine_save(engine, path, state, NULL, NULL, error);
    }
  }
  return code == DSCKPT_OK ? dsckpt_engine_wait_durable(engine, error) : code;
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fputs("usage: train_c FILE [STEPS]\n", stderr);
    return 2;
  }
  const int64_t steps = argc > 2 ? atoll(argv[2]) : 1000;
  struct job job = {0, 0, 1, 0};
  dsckpt_error error = {0};
  dsckpt_engine_options options = DSCKPT_INIT(dsckpt_engine_options);
  options.pool_bytes = 1 << 20;
  dsckpt_engine* engine = NULL;
  dsckpt_state* state = describe(&job, &error);
  int code = state == NULL ? error.code : dsckpt_engine_create(&options, &engine, &error);
  if (code == DSCKPT_OK) {
    code = resume(argv[1], state, &error);
    if (code == DSCKPT_NOT_FOUND) code = DSCKPT_OK;
    printf("from step %lld\n", (long long)job.step);
  }
  if (code == DSCKPT_OK) code = train(engine, argv[1], &job, state, steps, &error);
  dsckpt_engine_destroy(engine);
  dsckpt_state_destroy(state);
  if (code != DSCKPT_OK) {
    fprintf(stderr, "train_c: %s\n", error.message);
    return 1;
  }
  printf("step %lld: y = %.6f x + %.6f\n", (long long)job.step, job.slope, job.intercept);
  return 0;
}
