#ifndef DSCKPT_PYTHON_BUFFER_H_
#define DSCKPT_PYTHON_BUFFER_H_

#include <nanobind/nanobind.h>

#include <cstddef>
#include <span>

namespace dsckpt::python {

/// Writable, contiguous memory of a Python object, held for a call. GIL held.
class OutBuffer {
 public:
  explicit OutBuffer(nanobind::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) != 0) {
      throw nanobind::python_error();
    }
  }
  ~OutBuffer() { PyBuffer_Release(&view_); }
  OutBuffer(const OutBuffer&) = delete;
  OutBuffer& operator=(const OutBuffer&) = delete;
  std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(view_.buf), static_cast<size_t>(view_.len)};
  }

 private:
  Py_buffer view_;
};

}  // namespace dsckpt::python

#endif  // DSCKPT_PYTHON_BUFFER_H_
