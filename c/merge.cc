// Merging and verification of checkpoints of dsckpt/c.h.

#include "dsckpt/merge.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "c/abi.h"
#include "dsckpt/c.h"
#include "dsckpt/verify.h"
#include "format/names.h"

namespace dsckpt::c {
namespace {

Result<MergeOptions> ToMergeOptions(const dsckpt_merge_options* options) {
  dsckpt_merge_options in;
  DSCKPT_RETURN_IF_ERROR(CopyIn(options, in, "dsckpt_merge_options"));
  DSCKPT_RETURN_IF_ERROR(CheckConstant("container", in.container, DSCKPT_CONTAINER_SAFETENSORS));
  MergeOptions out;
  out.container = static_cast<Container>(in.container);
  out.shards = in.shards;
  out.max_shard_bytes = in.max_shard_bytes;
  TensorSelection& selection = out.selection;
  DSCKPT_ASSIGN_OR_RETURN(selection.names.filters, ToTexts(in.filters, in.filter_count, "filters"));
  DSCKPT_ASSIGN_OR_RETURN(selection.names.excludes,
                          ToTexts(in.excludes, in.exclude_count, "excludes"));
  DSCKPT_ASSIGN_OR_RETURN(selection.renames, ToTexts(in.renames, in.rename_count, "renames"));
  if (in.strip_prefix != nullptr) selection.strip_prefix = in.strip_prefix;
  if (in.dtype != 0) {
    DSCKPT_RETURN_IF_ERROR(CheckConstant("dtype", in.dtype, DSCKPT_U4));
    selection.dtype = static_cast<DType>(in.dtype);
  }
  out.verify = in.no_verify == 0;
  out.ignore_header = in.ignore_header != 0;
  out.strict = in.strict != 0;
  out.replace = in.replace != 0;
  out.dry_run = in.dry_run != 0;
  if (in.on_progress != nullptr) {
    out.progress = [call = in.on_progress, user = in.user](uint64_t done, uint64_t total) {
      call(user, done, total);
    };
  }
  if (in.cancelled != nullptr) {
    out.cancelled = [call = in.cancelled, user = in.user] { return call(user) != 0; };
  }
  return out;
}

dsckpt_merge_report ToC(const MergeReport& in) {
  dsckpt_merge_report out = {};
  out.shards = in.shards;
  out.pieces = in.pieces;
  out.piece_bytes = in.piece_bytes;
  out.tensors = in.tensors;
  out.aliases = in.aliases;
  out.bytes = in.bytes;
  out.files = in.files.size();
  out.objects = in.objects;
  out.cast = in.cast;
  out.became_infinite = in.became_infinite;
  out.rank_specific = in.rank_specific;
  out.rank_own = in.rank_own;
  out.dropped_objects = in.dropped.objects;
  out.dropped_attributes = in.dropped.attributes;
  out.dropped_aliases = in.dropped.aliases;
  out.conflicting_metadata = in.conflicting_metadata.size();
  out.conflicting_attributes = in.conflicting_attributes.size();
  return out;
}

/// Problems of a checkpoint for a C callback, and the status that the call returns of them.
class Problems {
 public:
  explicit Problems(const dsckpt_verify_checkpoint_options& options) : options_(options) {}

  void Add(const Status& status) {
    Keep(status);
    const std::string text = status.ToString();
    Tell(status.path(), {"", StatusCodeName(status.code()), 0, "", text.c_str()});
  }
  void Add(const FileVerification& file) {
    if (!file.status.ok()) return Add(file.status);
    for (const Problem& p : file.report.problems) {
      const bool unknown = p.kind == "unsupported";  // Only a newer version could check it.
      Keep(Status(unknown ? StatusCode::kUnsupported : StatusCode::kCorrupt,
                  format::Printable(p.item) + ": " + p.kind + ", expected " + p.expected +
                      ", found " + p.found)
               .WithPath(file.path)
               .WithOffset(static_cast<int64_t>(p.offset)));
      Tell(file.path,
           {p.item.c_str(), p.kind.c_str(), p.offset, p.expected.c_str(), p.found.c_str()});
    }
  }
  /// The first that says that something is bad, or else the first of all.
  const Status& status() const { return bad_.ok() ? other_ : bad_; }

 private:
  static bool IsBad(StatusCode code) {
    return code == StatusCode::kCorrupt || code == StatusCode::kTruncated ||
           code == StatusCode::kTrailingBytes || code == StatusCode::kIncomplete ||
           code == StatusCode::kMismatch;
  }
  void Keep(const Status& status) {
    Status& kept = IsBad(status.code()) ? bad_ : other_;
    if (kept.ok()) kept = status;
  }
  void Tell(const std::string& path, const dsckpt_problem& problem) const {
    if (options_.on_problem != nullptr) options_.on_problem(options_.user, path.c_str(), &problem);
  }

  const dsckpt_verify_checkpoint_options& options_;
  Status bad_, other_;
};

Status VerifyPath(const char* path, const dsckpt_verify_checkpoint_options* options) {
  DSCKPT_RETURN_IF_ERROR(NotNull(path, "path"));
  dsckpt_verify_checkpoint_options in;
  DSCKPT_RETURN_IF_ERROR(CopyIn(options, in, "dsckpt_verify_checkpoint_options"));
  Problems problems(in);
  VerifyCheckpointOptions verify{.decode = in.decode != 0, .threads = in.threads};
  verify.on_file = [&](const FileVerification& file) { problems.Add(file); };
  verify.on_problem = [&](const Status& status) { problems.Add(status); };
  if (in.on_progress != nullptr) {
    verify.progress = [&](const std::string& file, uint64_t done, uint64_t total) {
      in.on_progress(in.user, file.c_str(), done, total);
    };
  }
  if (in.cancelled != nullptr) verify.cancelled = [&] { return in.cancelled(in.user) != 0; };
  DSCKPT_RETURN_IF_ERROR(VerifyCheckpoint(path, verify).status());
  return problems.status();
}

}  // namespace
}  // namespace dsckpt::c

using dsckpt::Status;
using dsckpt::c::CopyOut;
using dsckpt::c::Guard;
using dsckpt::c::NotNull;

extern "C" {

int dsckpt_merge(const char* const* inputs, size_t input_count, const char* output,
                 const dsckpt_merge_options* options, dsckpt_merge_report* report,
                 dsckpt_error* error) {
  return Guard(error, [&]() -> Status {
    DSCKPT_ASSIGN_OR_RETURN(const auto paths, dsckpt::c::ToTexts(inputs, input_count, "inputs"));
    DSCKPT_RETURN_IF_ERROR(NotNull(output, "output"));
    // Before anything is written: a report that cannot be filled is no reason to fail afterwards.
    if (report != nullptr) {
      DSCKPT_RETURN_IF_ERROR(CopyOut(dsckpt_merge_report{}, report, "dsckpt_merge_report"));
    }
    DSCKPT_ASSIGN_OR_RETURN(const auto merge_options, dsckpt::c::ToMergeOptions(options));
    DSCKPT_ASSIGN_OR_RETURN(const auto merged, dsckpt::Merge(paths, output, merge_options));
    if (report == nullptr) return {};
    return CopyOut(dsckpt::c::ToC(merged), report, "dsckpt_merge_report");
  });
}

int dsckpt_verify_checkpoint(const char* path, const dsckpt_verify_checkpoint_options* options,
                             dsckpt_error* error) {
  return Guard(error, [&] { return dsckpt::c::VerifyPath(path, options); });
}

}  // extern "C"
