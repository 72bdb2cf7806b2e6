#ifndef DSCKPT_TESTS_C_CHECK_H_
#define DSCKPT_TESTS_C_CHECK_H_

/* Checks for C programs, which say where they failed and go on. */

#include <stdio.h>

#include "dsckpt/c.h"

static int failures;

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                     \
    }                                                                 \
  } while (0)

/* Checks a call that takes &error last and shows its message where the code is another. */
#define CHECK_CODE(call, wanted)                                                   \
  do {                                                                             \
    const int code_ = (call);                                                      \
    if (code_ != (wanted)) {                                                       \
      fprintf(stderr, "%s:%d: %s: %s, wanted %s: %s\n", __FILE__, __LINE__, #call, \
              dsckpt_code_name(code_), dsckpt_code_name(wanted), error.message);   \
      ++failures;                                                                  \
    } else if (code_ != 0) {                                                       \
      CHECK(error.code == (wanted));                                               \
      CHECK(error.message[0] != '\0');                                             \
    }                                                                              \
  } while (0)
#define CHECK_OK(call) CHECK_CODE(call, DSCKPT_OK)

#endif /* DSCKPT_TESTS_C_CHECK_H_ */
