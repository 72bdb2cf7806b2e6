#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

#include "bench/bench.h"

namespace dsckpt::bench {
namespace {

// The bars of a number of tensors or bytes are stated for these sizes. `ablate` has enough small
// tensors to show what they cost, and a pool that takes those captured at save.
void FillDefaults(const std::string& workload, Options& options) {
  if (options.pool_bytes == 0) {
    options.pool_bytes = uint64_t{workload == "ablate" ? 1024u : 64u} << 20;
  }
  if (options.tensors == 0) {
    options.tensors = workload == "open" || workload == "return" ? 100'000
                      : workload == "ablate"                     ? 10'000
                                                                 : 400;
  }
}

// Ratio of the limit's time to ours: 1 is as fast as the hardware.
std::string Ratio(const Result& r, const char* none) {
  return r.limit_seconds > 0 ? fmt::format("{:.3f}", r.limit_seconds / r.seconds) : none;
}

void PrintJson(const Result& r) {
  fmt::print(R"({{"workload":"{}","bytes":{},"tensors":{},"seconds":{:.6f},"limit_seconds":{:.6f},)"
             R"("ratio":{},"peak_extra_bytes":{}}})"
             "\n",
             r.workload, r.bytes, r.tensors, r.seconds, r.limit_seconds, Ratio(r, "null"),
             r.peak_extra_bytes);
}

void PrintTable(const Results& results) {
  constexpr double kMega = 1e6;
  fmt::print("{:<40}{:>12}{:>10}{:>12}{:>10}{:>12}{:>8}{:>16}\n", "workload", "MB", "tensors", "ms",
             "MB/s", "limit ms", "ratio", "extra memory MB");
  for (const Result& r : results) {
    fmt::print("{:<40}{:>12.1f}{:>10}{:>12.2f}{:>10.0f}{:>12.2f}{:>8}{:>16.1f}  {}\n", r.workload,
               static_cast<double>(r.bytes) / kMega, r.tensors, r.seconds * 1e3,
               static_cast<double>(r.bytes) / kMega / r.seconds, r.limit_seconds * 1e3,
               Ratio(r, "-"), static_cast<double>(r.peak_extra_bytes) / kMega, r.note);
  }
}

dsckpt::Result<Results> Run(const std::string& workload, const Options& options) {
  if (workload == "save") return RunSave(options);
  if (workload == "load") return RunLoad(options);
  if (workload == "verify") return RunVerify(options);
  if (workload == "merge") return RunMerge(options);
  if (workload == "open") return RunOpen(options);
  if (workload == "statistics") return RunStatistics(options);
  if (workload == "analysis") return RunAnalysis(options);
  if (workload == "trace") return RunTrajectory(options);
  if (workload == "gpu-save") return RunGpuSave(options);
  if (workload == "gpu-load") return RunGpuLoad(options);
  if (workload == "gpu-train") return RunGpuTrain(options);
  if (workload == "ablate") return RunAblate(options);
  return RunReturn(options);
}

int Main(int argc, char** argv) {
  std::string workload;
  Options options;
  bool json = false;
  CLI::App app("Measures dsckpt against what the hardware gives.");
  app.add_option("workload", workload,
                 "save, load, open, verify, merge, return, statistics, analysis, trace, ablate, "
                 "gpu-save, gpu-load or gpu-train")
      ->required()
      ->check(CLI::IsMember({"save", "load", "open", "verify", "merge", "return", "statistics",
                             "analysis", "trace", "ablate", "gpu-save", "gpu-load", "gpu-train"}));
  app.add_option("--bytes", options.bytes,
                 "tensor bytes of save, load, verify, merge, statistics, analysis and trace")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("4G");
  app.add_option("--tensors", options.tensors,
                 "number of tensors (400; ablate: 10000; open, return: 100000)");
  app.add_option("--pool", options.pool_bytes, "the engine's staging pool")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("64M; ablate: 1G");
  app.add_option("--dir", options.dir, "where the files go")->default_val(".");
  app.add_option("--repeat", options.repeat, "measurements; their median counts")
      ->default_val(5)
      ->check(CLI::Range(1, 1000));
  app.add_option("--only", options.only, "gpu-save: one case")
      ->check(CLI::IsMember({"gpu", "gpu-quarter", "gpu-snapshot", "gpu-small"}));
  app.add_flag("--json", json, "one JSON object a line");
  options.bytes = uint64_t{4} << 30;
  CLI11_PARSE(app, argc, argv);
  FillDefaults(workload, options);

  const auto results = Run(workload, options);
  if (!results.ok()) {
    fmt::print(stderr, "dsckpt_bench: {}\n", results.status().ToString());
    return 2;
  }
  if (json) {
    for (const Result& r : results.value()) PrintJson(r);
  } else {
    PrintTable(results.value());
  }
  return 0;
}

}  // namespace
}  // namespace dsckpt::bench

int main(int argc, char** argv) { return dsckpt::bench::Main(argc, argv); }
