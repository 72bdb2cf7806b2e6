#ifndef DSCKPT_PYTHON_ARROW_STREAM_H_
#define DSCKPT_PYTHON_ARROW_STREAM_H_

#include <nanobind/nanobind.h>

#include <memory>

#include "python/src/table.h"

// Tables by the C data interface of Apache Arrow, without a copy of their numbers.

namespace dsckpt::python {

/// A capsule "arrow_schema". GIL held.
nanobind::object ArrowSchemaCapsule(const std::shared_ptr<const Table>& table);
/// A capsule "arrow_array_stream", whose arrays keep the table alive. GIL held.
nanobind::object ArrowStreamCapsule(const std::shared_ptr<const Table>& table);

}  // namespace dsckpt::python

#endif  // DSCKPT_PYTHON_ARROW_STREAM_H_
