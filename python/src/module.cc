#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "dsckpt/device.h"
#include "dsckpt/dtype.h"
#include "dsckpt/provider.h"
#include "dsckpt/version.h"
#include "python/src/bind.h"
#include "python/src/exit_status.h"
#include "python/src/hold.h"
#include "python/src/status.h"

namespace dsckpt::python {
namespace {

using DTypeRow = std::tuple<int, std::string, int, uint32_t, uint32_t>;

std::vector<DTypeRow> DTypes() {
  std::vector<DTypeRow> rows;
  for (const DTypeInfo& info : AllDTypes()) {
    rows.emplace_back(static_cast<int>(info.code), info.name, info.bits, info.block_elements,
                      info.block_bytes);
  }
  return rows;
}

}  // namespace
}  // namespace dsckpt::python

NB_MODULE(_native, module) {
  namespace py = dsckpt::python;
  namespace nb = nanobind;
  // Classes hold Python objects on behalf of engines that live until the process ends.
  nb::set_leak_warnings(false);
  module.attr("__version__") = dsckpt::VersionString();
#ifdef DSCKPT_WITH_CUDA
  module.attr("WITH_CUDA") = true;
#else
  module.attr("WITH_CUDA") = false;
#endif
  module.attr("AT_SAVE") = static_cast<int>(dsckpt::Capture::kAtSave);
  module.attr("UNTIL_FENCE") = static_cast<int>(dsckpt::Capture::kUntilFence);
  module.def("device_support", []() -> std::optional<std::string> {
    const dsckpt::Status status = dsckpt::DeviceSupport();
    return status.ok() ? std::nullopt : std::optional(status.message());
  });
  module.def("dtypes", &py::DTypes);
  module.def("stop_callbacks", &py::StopCallbacks);
  module.def("fail_at_exit", &py::FailAtExit);
  py::BindWalker(module);
  py::BindEngine(module);
  py::BindCheckpointWriter(module);
  py::BindFile(module);
  py::BindCheckpoint(module);
  py::BindTrajectory(module);
  py::BindTable(module);
  py::BindMeasures(module);
  py::BindAverage(module);
  py::BindTools(module);
  py::BindAnalysis(module);
}
