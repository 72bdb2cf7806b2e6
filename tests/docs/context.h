#ifndef DSCKPT_TESTS_DOCS_CONTEXT_H_
#define DSCKPT_TESTS_DOCS_CONTEXT_H_

// What the examples of the documentation take for granted. They are compiled and not linked.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dsckpt/dsckpt.h"

extern std::vector<float> weights, mine;
extern std::vector<int64_t> shape, my_shape;
extern uint64_t rng;
extern int64_t step, rows, columns;
extern int rank, ranks;
extern std::string run;
extern void* device_weights;
extern dsckpt::Stream stream;
extern dsckpt::State state;
extern std::unique_ptr<dsckpt::Engine> engine;

#endif  // DSCKPT_TESTS_DOCS_CONTEXT_H_
