#ifndef DSCKPT_PYTHON_DLPACK_H_
#define DSCKPT_PYTHON_DLPACK_H_

#include <nanobind/ndarray.h>

#include <cstdint>

namespace dsckpt::python {

/// The table of C functions behind `Tensor.__dlpack_c_exchange_api__` (DLPack 1.2,
/// https://dmlc.github.io/dlpack/latest/c_api.html). Only the member that lends a tensor's
/// description is called: it takes no reference and makes no Python object.
struct DlpackExchange {
  uint32_t major, minor;
  DlpackExchange* previous;
  void* allocate;
  void* from_object;
  void* to_object;
  int (*lend)(void* object, nanobind::dlpack::dltensor* out);
  void* current_stream;
};

/// DLPack's codes of devices and of types that nanobind does not name.
inline constexpr int32_t kDlCpu = 1, kDlCuda = 2, kDlCudaHost = 3;

}  // namespace dsckpt::python

#endif  // DSCKPT_PYTHON_DLPACK_H_
