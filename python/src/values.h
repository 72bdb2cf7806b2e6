#ifndef DSCKPT_PYTHON_VALUES_H_
#define DSCKPT_PYTHON_VALUES_H_

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <string_view>

#include "dsckpt/tree.h"

namespace dsckpt::python {

namespace nb = nanobind;

/// The leaf that an object of exactly one of the types None, bool, int, float, complex, str, bytes
/// stands for; nothing for other types and for text that is no UTF-8.
std::optional<Value> ToValue(PyObject* object);
/// The same the other way.
nb::object FromValue(const Value& value);

/// UTF-8 of a str object, which owns it; nothing where it holds surrogates.
std::optional<std::string_view> Utf8(PyObject* text);
nb::str ToStr(std::string_view text);

/// The dict key for a node; None for what has no key.
nb::object FromKey(const Key& key);

}  // namespace dsckpt::python

#endif  // DSCKPT_PYTHON_VALUES_H_
