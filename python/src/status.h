#ifndef DSCKPT_PYTHON_STATUS_H_
#define DSCKPT_PYTHON_STATUS_H_

#include <nanobind/nanobind.h>

#include <string>
#include <utility>

#include "dsckpt/status.h"
#include "python/src/gil.h"

namespace dsckpt::python {

namespace nb = nanobind;

/// Throws dsckpt.DsckptError (dsckpt.errors.from_status) for anything but OK. GIL held.
void Check(const Status& status);

/// Throws dsckpt.DsckptError with the code InvalidArgument. GIL held.
[[noreturn]] void ThrowInvalid(std::string message);

template <typename T>
T Unwrap(Result<T> result) {
  Check(result.status());
  return std::move(result).value();
}

/// What a Python callback raised, as a status for the engine. Clears the exception. GIL held.
Status FromPython(nb::python_error& error);

}  // namespace dsckpt::python

#endif  // DSCKPT_PYTHON_STATUS_H_
