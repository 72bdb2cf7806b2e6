#ifndef DSCKPT_PYTHON_TEXT_H_
#define DSCKPT_PYTHON_TEXT_H_

#include <nanobind/nanobind.h>

#include <string>
#include <utility>

#include "python/src/gil.h"

namespace dsckpt::python {

/// A path: bytes of the file system, which need not be UTF-8. In Python a str (os.fsdecode), and
/// as an argument also bytes or os.PathLike.
struct FsPath {
  std::string bytes;
};

/// A message for people, which may quote paths: what is no UTF-8 in it is escaped.
struct Message {
  std::string bytes;
};

}  // namespace dsckpt::python

namespace nanobind::detail {

template <>
struct type_caster<dsckpt::python::FsPath> {
  NB_TYPE_CASTER(dsckpt::python::FsPath, const_name("str | bytes | os.PathLike"))

  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    PyObject* given = dsckpt::python::OrWaitForTheEnd([&] { return PyOS_FSPath(source.ptr()); });
    PyObject* encoded = given;
    if (given != nullptr && PyUnicode_Check(given)) {
      encoded = PyUnicode_EncodeFSDefault(given);
      Py_DECREF(given);
    }
    if (encoded == nullptr) {
      PyErr_Clear();
      return false;
    }
    value.bytes.assign(PyBytes_AS_STRING(encoded), static_cast<size_t>(PyBytes_GET_SIZE(encoded)));
    Py_DECREF(encoded);
    return true;
  }
  static handle from_cpp(const dsckpt::python::FsPath& path, rv_policy, cleanup_list*) noexcept {
    return PyUnicode_DecodeFSDefaultAndSize(path.bytes.data(),
                                            static_cast<Py_ssize_t>(path.bytes.size()));
  }
};

template <>
struct type_caster<dsckpt::python::Message> {
  NB_TYPE_CASTER(dsckpt::python::Message, const_name("str"))

  static handle from_cpp(const dsckpt::python::Message& text, rv_policy, cleanup_list*) noexcept {
    return PyUnicode_DecodeUTF8(text.bytes.data(), static_cast<Py_ssize_t>(text.bytes.size()),
                                "backslashreplace");
  }
};

}  // namespace nanobind::detail

#endif  // DSCKPT_PYTHON_TEXT_H_
