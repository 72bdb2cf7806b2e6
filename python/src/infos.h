#ifndef DSCKPT_PYTHON_INFOS_H_
#define DSCKPT_PYTHON_INFOS_H_

#include <nanobind/nanobind.h>

#include <optional>
#include <string>

#include "dsckpt/file.h"

namespace dsckpt::python {

/// As _TensorInfo and _ObjectInfo in _native.pyi.
nanobind::tuple ToTuple(const TensorInfo& info);
nanobind::tuple ToTuple(const ObjectInfo& info);

/// As _Statistics in _native.pyi.
std::optional<nanobind::tuple> ToTuple(const std::optional<TensorStatistics>& statistics);

/// 32 hexadecimal digits, high half first.
std::optional<std::string> ToHex(const std::optional<Hash128>& digest);

}  // namespace dsckpt::python

#endif  // DSCKPT_PYTHON_INFOS_H_
