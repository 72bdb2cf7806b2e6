// Verification, merging, and what paths stand for.

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/dtype.h"
#include "dsckpt/merge.h"
#include "dsckpt/operand.h"
#include "dsckpt/verify.h"
#include "python/src/bind.h"
#include "python/src/hold.h"
#include "python/src/long_call.h"
#include "python/src/status.h"
#include "python/src/text.h"

namespace dsckpt::python {
namespace {

using namespace nb::literals;

nb::object PathOf(const std::string& path) { return nb::cast(FsPath{path}); }
nb::object TextOf(const std::string& text) { return nb::cast(Message{text}); }

nb::list ToPython(const std::vector<Problem>& problems) {
  nb::list rows;
  for (const Problem& problem : problems) {
    rows.append(nb::make_tuple(TextOf(problem.item), problem.kind, problem.offset,
                               TextOf(problem.expected), TextOf(problem.found)));
  }
  return rows;
}

nb::object ToPython(const Status& status) {
  if (status.ok()) return nb::none();
  return nb::make_tuple(StatusCodeName(status.code()), TextOf(status.message()),
                        PathOf(status.path()),
                        status.offset() < 0 ? nb::none() : nb::object(nb::int_(status.offset())),
                        status.error_number());
}

nb::tuple VerifyPath(const FsPath& path, bool decode, int threads, nb::object progress) {
  const auto state = std::make_shared<LongCall<VerifyCheckpointReport>>();
  VerifyCheckpointOptions options{.decode = decode, .threads = threads};
  if (!progress.is_none()) {
    options.progress = [call = Callback(progress)](const std::string&, uint64_t done,
                                                   uint64_t total) {
      // A verification is not stopped by what its progress bar raises.
      (void)call(done, total);
    };
  }
  const VerifyCheckpointReport report =
      RunLong(state, /*to_the_end=*/false, [path = path.bytes, options](auto& running) {
        auto stoppable = options;
        stoppable.cancelled = [&running] { return running.stop.load(); };
        return VerifyCheckpoint(path, stoppable);
      });
  nb::list files, problems;
  for (const FileVerification& file : report.files) {
    files.append(nb::make_tuple(PathOf(file.path), ToPython(file.status), file.has_checksums,
                                ToPython(file.report.problems)));
  }
  for (const Status& problem : report.problems) problems.append(ToPython(problem));
  return nb::make_tuple(report.ok, report.checked_bytes, files, problems);
}

nb::list ToPython(const std::vector<MergeConflict>& conflicts) {
  nb::list rows;
  for (const MergeConflict& conflict : conflicts) {
    nb::list values;
    for (const MergeConflict::Said& said : conflict.values) {
      nb::dict value;
      value["file"] = PathOf(said.file);
      value["value"] = TextOf(said.value);
      values.append(value);
    }
    nb::dict row;
    row["key"] = TextOf(conflict.key);
    row["values"] = values;
    rows.append(row);
  }
  return rows;
}

nb::dict ToPython(const MergeReport& report) {
  nb::dict out;
  out["shards"] = report.shards;
  out["pieces"] = report.pieces;
  out["piece_bytes"] = report.piece_bytes;
  out["tensors"] = report.tensors;
  out["aliases"] = report.aliases;
  out["cast"] = report.cast;
  out["became_infinite"] = report.became_infinite;
  out["objects"] = report.objects;
  out["dropped_objects"] = report.dropped.objects;
  out["dropped_attributes"] = report.dropped.attributes;
  out["dropped_aliases"] = report.dropped.aliases;
  out["rank_specific"] = report.rank_specific;
  out["rank_own"] = report.rank_own;
  out["bytes"] = report.bytes;
  nb::list files;
  for (const MergeReport::OutputFile& file : report.files) {
    nb::dict row;
    row["tensors"] = file.tensors;
    row["bytes"] = file.bytes;
    files.append(row);
  }
  out["files"] = files;
  out["conflicting_metadata"] = ToPython(report.conflicting_metadata);
  nb::list attributes;
  for (const std::string& name : report.conflicting_attributes) attributes.append(TextOf(name));
  out["conflicting_attributes"] = attributes;
  return out;
}

nb::dict MergePaths(const std::vector<FsPath>& paths, const FsPath& output, bool safetensors,
                    uint64_t max_shard_bytes, uint32_t shards, bool verify, bool ignore_header,
                    bool dry_run, bool replace, std::vector<std::string> filters,
                    std::vector<std::string> excludes, std::string strip_prefix,
                    std::vector<std::string> renames, std::optional<int> dtype,
                    nb::object progress) {
  std::vector<std::string> inputs;
  for (const FsPath& path : paths) inputs.push_back(path.bytes);
  MergeOptions options;
  options.container = safetensors ? Container::kSafetensors : Container::kDsckpt;
  options.max_shard_bytes = max_shard_bytes;
  options.shards = shards;
  options.verify = verify;
  options.ignore_header = ignore_header;
  options.dry_run = dry_run;
  options.replace = replace;
  options.selection = {{std::move(filters), std::move(excludes)},
                       std::move(strip_prefix),
                       std::move(renames),
                       dtype ? std::optional(static_cast<DType>(*dtype)) : std::nullopt};
  if (!progress.is_none()) {
    options.progress = [call = Callback(progress)](uint64_t done, uint64_t total) {
      (void)call(done, total);
    };
  }
  const auto state = std::make_shared<LongCall<MergeReport>>();
  const MergeReport report =
      RunLong(state, /*to_the_end=*/true,
              [inputs = std::move(inputs), output = output.bytes, options](auto& running) {
                auto stoppable = options;
                stoppable.cancelled = [&running] { return running.stop.load(); };
                return Merge(inputs, output, stoppable);
              });
  return ToPython(report);
}

}  // namespace

void BindTools(nb::module_& module) {
  module.def(
      "find_checkpoint",
      [](const FsPath& path) {
        return FsPath{Unwrap(WithoutGil([&] { return FindCheckpoint(path.bytes); }))};
      },
      "path"_a);
  module.def("verify", &VerifyPath, "path"_a, nb::kw_only(), "decode"_a = false, "threads"_a = 0,
             "progress"_a = nb::none());
  module.def("merge", &MergePaths, "paths"_a, "output"_a, nb::kw_only(), "safetensors"_a = false,
             "max_shard_bytes"_a = 0, "shards"_a = 0, "verify"_a = true, "ignore_header"_a = false,
             "dry_run"_a = false, "replace"_a = false, "filters"_a = std::vector<std::string>(),
             "excludes"_a = std::vector<std::string>(), "strip_prefix"_a = "",
             "renames"_a = std::vector<std::string>(), "dtype"_a = nb::none(),
             "progress"_a = nb::none());
}

}  // namespace dsckpt::python
