#include "python/src/status.h"

#include <string>

namespace dsckpt::python {
namespace {

[[noreturn]] void Throw(const Status& status) {
  const nb::object make = nb::module_::import_("dsckpt.errors").attr("from_status");
  // Paths are bytes of the file system: what is no UTF-8 must not hide the error.
  const auto text = [](const std::string& bytes) {
    return nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()),
                                          "backslashreplace"));
  };
  const nb::object offset =
      status.offset() < 0 ? nb::none() : nb::object(nb::int_(status.offset()));
  const nb::object path = status.path().empty() ? nb::none() : nb::object(text(status.path()));
  const nb::object error = CallPython(make, StatusCodeName(status.code()), text(status.message()),
                                      path, offset, status.error_number());
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

}  // namespace

void Check(const Status& status) {
  if (!status.ok()) Throw(status);
}

void ThrowInvalid(std::string message) {
  Throw(Status(StatusCode::kInvalidArgument, std::move(message)));
}

Status FromPython(nb::python_error& error) {
  std::string text = "a Python callback failed";
  try {
    text = nb::cast<std::string>(nb::str(error.value()));
    if (text.empty()) text = nb::cast<std::string>(error.type().attr("__name__"));
  } catch (const std::exception&) {
    PyErr_Clear();
  }
  return Status(StatusCode::kFailedPrecondition, std::move(text));
}

}  // namespace dsckpt::python
