#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "dsckpt/device.h"
#include "dsckpt/dtype.h"
#include "dsckpt/provider.h"
#include "dsckpt/verify.h"
#include "dsckpt/version.h"
#include "python/src/bind.h"
#include "python/src/exit_status.h"
#include "python/src/hold.h"
#include "python/src/status.h"
#include "python/src/text.h"

namespace dsckpt::python {
namespace {

using DTypeRow = std::tuple<int, std::string, int, uint32_t, uint32_t>;
using ProblemRow = std::tuple<std::string, std::string, uint64_t, std::string, std::string>;

std::vector<DTypeRow> DTypes() {
  std::vector<DTypeRow> rows;
  for (const DTypeInfo& info : AllDTypes()) {
    rows.emplace_back(static_cast<int>(info.code), info.name, info.bits, info.block_elements,
                      info.block_bytes);
  }
  return rows;
}

nb::tuple VerifyFile(const FsPath& path, bool decode, int threads, nb::object progress) {
  VerifyOptions options{.decode = decode, .threads = threads};
  if (!progress.is_none()) {
    options.progress = [call = Callback(progress)](uint64_t done, uint64_t total) {
      // A verification is not stopped by what its progress bar raises.
      (void)call(done, total);
    };
  }
  const VerifyReport report = Unwrap(WithoutGil([&] { return Verify(path.bytes, options); }));
  std::vector<ProblemRow> problems;
  for (const Problem& problem : report.problems) {
    problems.emplace_back(problem.item, problem.kind, problem.offset, problem.expected,
                          problem.found);
  }
  return nb::make_tuple(report.ok, report.checked_bytes, problems);
}

}  // namespace
}  // namespace dsckpt::python

NB_MODULE(_native, module) {
  namespace py = dsckpt::python;
  namespace nb = nanobind;
  using namespace nb::literals;
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
  module.def("verify", &py::VerifyFile, "path"_a, nb::kw_only(), "decode"_a = false,
             "threads"_a = 0, "progress"_a = nb::none());
  module.def("stop_callbacks", &py::StopCallbacks);
  module.def("fail_at_exit", &py::FailAtExit);
  py::BindWalker(module);
  py::BindEngine(module);
  py::BindCheckpointWriter(module);
  py::BindFile(module);
  py::BindCheckpoint(module);
}
