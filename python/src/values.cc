#include "python/src/values.h"

#include <algorithm>
#include <complex>
#include <vector>

namespace dsckpt::python {
namespace {

Value FromInt(PyObject* object) {
  int overflow = 0;
  const long long small = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow == 0) return Value(static_cast<int64_t>(small));
  const nb::object magnitude = nb::steal(PyNumber_Absolute(object));
  const auto bits = nb::cast<size_t>(magnitude.attr("bit_length")());
  const auto bytes = nb::cast<nb::bytes>(magnitude.attr("to_bytes")((bits + 7) / 8, "little"));
  BigInt big{.negative = overflow < 0, .magnitude = {}};
  const auto* data = static_cast<const uint8_t*>(bytes.data());
  big.magnitude.assign(data, data + bytes.size());
  return Value(std::move(big));
}

nb::object FromBigInt(const BigInt& big) {
  const nb::bytes bytes(big.magnitude.data(), big.magnitude.size());
  const nb::handle type(reinterpret_cast<PyObject*>(&PyLong_Type));
  nb::object value = type.attr("from_bytes")(bytes, "little");
  return big.negative ? nb::steal(PyNumber_Negative(value.ptr())) : value;
}

}  // namespace

std::optional<std::string_view> Utf8(PyObject* text) {
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text, &size);
  if (bytes == nullptr) {
    PyErr_Clear();
    return std::nullopt;
  }
  return std::string_view(bytes, static_cast<size_t>(size));
}

nb::str ToStr(std::string_view text) { return nb::str(text.data(), text.size()); }

std::optional<Value> ToValue(PyObject* object) {
  if (object == Py_None) return Value();
  const PyTypeObject* type = Py_TYPE(object);
  if (type == &PyBool_Type) return Value(object == Py_True);
  if (type == &PyLong_Type) return FromInt(object);
  if (type == &PyFloat_Type) return Value(PyFloat_AS_DOUBLE(object));
  if (type == &PyUnicode_Type) {
    const auto text = Utf8(object);
    return text ? std::optional<Value>(std::string(*text)) : std::nullopt;
  }
  if (type == &PyBytes_Type) {
    const auto* data = reinterpret_cast<const std::byte*>(PyBytes_AS_STRING(object));
    return Value(std::vector<std::byte>(data, data + PyBytes_GET_SIZE(object)));
  }
  if (type == &PyComplex_Type) {
    const Py_complex value = PyComplex_AsCComplex(object);
    return Value(std::complex<double>(value.real, value.imag));
  }
  return std::nullopt;
}

nb::object FromValue(const Value& value) {
  struct Visitor {
    nb::object operator()(std::monostate) const { return nb::none(); }
    nb::object operator()(bool v) const { return nb::bool_(v); }
    nb::object operator()(int64_t v) const { return nb::int_(v); }
    nb::object operator()(const BigInt& v) const { return FromBigInt(v); }
    nb::object operator()(double v) const { return nb::float_(v); }
    nb::object operator()(std::complex<double> v) const {
      return nb::steal(PyComplex_FromDoubles(v.real(), v.imag()));
    }
    nb::object operator()(const std::string& v) const { return ToStr(v); }
    nb::object operator()(const std::vector<std::byte>& v) const {
      return nb::bytes(v.data(), v.size());
    }
  };
  return std::visit(Visitor{}, value);
}

nb::object FromKey(const Key& key) {
  switch (key.kind()) {
    case Key::Kind::kString:
      return ToStr(key.text());
    case Key::Kind::kInt:
      return nb::int_(key.integer());
    case Key::Kind::kNone:
      break;
  }
  return nb::none();
}

}  // namespace dsckpt::python
