#ifndef DSCKPT_MERGE_H_
#define DSCKPT_MERGE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/dtype.h"
#include "dsckpt/engine.h"
#include "dsckpt/export.h"
#include "dsckpt/status.h"
#include "dsckpt/tree.h"

namespace DSCKPT_EXPORT dsckpt {

/// Patterns over whole names: `*` is any text, `?` one character, `[a-z]` and `[!a-z]` one of a
/// set, `{a,b}` either, and a backslash takes the next character for itself.
struct NameFilter {
  /// A name is taken when one of these matches it; with none of them every name is.
  std::vector<std::string> filters = {};
  /// A name is not taken when one of these matches it.
  std::vector<std::string> excludes = {};

  /// Returns whether there are any patterns.
  bool any() const { return !filters.empty() || !excludes.empty(); }
  /// Returns whether a name is taken.
  bool Takes(std::string_view name) const;
};

/// Which tensors are taken, what they are called afterwards, and in which dtype.
struct TensorSelection {
  /// Looks at the names in the input. Each pattern has to match a tensor.
  NameFilter names = {};
  /// Names that begin with this text lose it. Empty: none do.
  std::string strip_prefix = {};
  /// Replacements in names, as sed writes them, applied one after the other: "s/RE/NEW/", and
  /// "s/RE/NEW/g" for every match of one name. `\1` to `\9` are the groups of the expression, and
  /// `&` is all that it matched.
  std::vector<std::string> renames = {};
  /// F16, BF16, F32 or F64: tensors of these four dtypes are cast to it, to the nearest number and
  /// to an even one between two; too large a number becomes infinite.
  std::optional<DType> dtype = {};

  /// Returns whether names are changed.
  bool renames_any() const { return !strip_prefix.empty() || !renames.empty(); }
  /// Returns whether tensors are chosen, renamed or cast.
  bool any() const { return names.any() || renames_any() || dtype.has_value(); }
};

/// An attribute that a merge writes, or leaves out.
struct AttributeChange {
  /// The name of the attribute.
  std::string name;
  /// Its value in the output, whatever the inputs say. Nothing: the output has no such attribute,
  /// and no member of that name in its safetensors metadata.
  std::optional<Value> value;
};

/// How Merge() works. By default it makes one dsckpt file of all that the inputs hold.
struct MergeOptions {
  /// kSafetensors: the output is what Hugging Face tools load: one file, or a directory of files
  /// with the index `model.safetensors.index.json`.
  Container container = Container::kDsckpt;
  /// Not 0: the output is a directory of files that hold at most so many bytes of tensors each. A
  /// larger tensor gets a file of its own.
  uint64_t max_shard_bytes = 0;
  /// Not 0: the output is a directory of about so many files of equal size. It is not used
  /// together with `max_shard_bytes`.
  uint32_t shards = 0;
  /// Where names are chosen or changed, only tensors and attributes are written.
  TensorSelection selection = {};
  /// Attributes of the output that are not those of the inputs, each name once. In a safetensors
  /// output they are members of the metadata, as text.
  std::vector<AttributeChange> attributes = {};
  /// Whether the checksums of the inputs are checked while they are read. A shard that is not
  /// File::verifiable() is then an error (kUnsupported).
  bool verify = true;
  /// Whether inputs are taken by their indexes although their JSON headers say something else, or
  /// are damaged (OpenOptions::ignore_header). Metadata that cannot be read is left out.
  bool ignore_header = false;
  /// Whether it is an error (kUnsupported) that safetensors cannot hold an object or an attribute.
  /// Otherwise these are left out, and the report counts them.
  bool strict = false;
  /// Whether an output that exists already gives way. A directory gives way only when all that it
  /// holds was written by an earlier merge.
  bool replace = false;
  /// Whether to plan and to check only: nothing is written.
  bool dry_run = false;
  /// Called now and then on the thread that called Merge() while tensors are written.
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress = {};
  /// Called often, on the thread that called Merge() alone. When it returns true the merge stops
  /// and removes what it has written (kCancelled).
  std::function<bool()> cancelled = {};

  /// Returns whether the output is a directory.
  bool makes_directory() const { return max_shard_bytes != 0 || shards != 0; }
};

/// A name under which inputs say different things: no value is right.
struct MergeConflict {
  /// One of the values.
  struct Said {
    /// The first input that says it.
    std::string file;
    /// The value that it says, as text.
    std::string value;
  };
  /// The name of the attribute or of the metadata member.
  std::string key;
  /// Whether it is an attribute of shards; otherwise it is a member of the safetensors metadata.
  bool attribute = false;
  /// Each value once.
  std::vector<Said> values;
};

/// What Merge() has read and written, or would write.
struct MergeReport {
  /// One file of the output.
  struct OutputFile {
    /// The number of its tensors.
    uint32_t tensors = 0;
    uint64_t bytes = 0;  ///< Of its tensors.
  };
  /// Where the input was a run directory: its latest checkpoint, which was taken.
  std::string latest_of_run;
  /// Input files.
  uint32_t shards = 0;
  /// Parts of tensors in the inputs, and their bytes; copies count.
  uint64_t pieces = 0, piece_bytes = 0;
  /// Tensors in the output, further names of them, and bytes of all tensors.
  uint64_t tensors = 0, aliases = 0, bytes = 0;
  /// Tensors that were cast, and elements that were finite before and became infinite.
  uint64_t cast = 0, became_infinite = 0;
  /// Objects in the output.
  uint64_t objects = 0;
  /// Leaves and objects of which ranks hold different versions: each is below "ranks", the rank.
  uint64_t rank_specific = 0;
  /// Subtrees that were declared to be one rank's own, which are there too.
  uint64_t rank_own = 0;
  /// The files of the output, in their order.
  std::vector<OutputFile> files;

  /// Whether the output has neither objects nor the other leaves of the state trees: safetensors
  /// holds none, and neither does an output of chosen or renamed tensors.
  bool tensors_only = false;
  /// What the inputs hold and the output does not.
  struct Dropped {
    /// With `tensors_only`: objects.
    uint64_t objects = 0;
    /// With `tensors_only`: whether the state trees held plain values.
    bool values = false;
    /// Attributes that text, and so safetensors, cannot express.
    uint64_t inexpressible_attributes = 0;
    /// Those and the attributes in which shards differ.
    uint64_t attributes = 0;
    /// Second names that plain safetensors files record for tensors that were renamed.
    uint64_t aliases = 0;
    /// Whether shards have state trees that have nothing in common: the output has names alone.
    bool trees = false;
  };
  /// What the output lacks.
  Dropped dropped;
  /// What was left out of the metadata because inputs differ in it.
  std::vector<MergeConflict> conflicting_metadata;
  /// Attributes in which shards differ. A dsckpt output has those of the first one.
  std::vector<std::string> conflicting_attributes;
  /// Without MergeOptions::verify, or with `ignore_header`: headers whose metadata could not be
  /// read, which is left out.
  std::vector<Status> unreadable_metadata;
};

/// Writes what the files of `inputs` hold together as one file, or as a directory of other files.
/// Tensors are put together to their whole shape from the pieces that shards declare, while they
/// are written: memory stays below 256 MiB whatever their size. Copies of the same elements are
/// compared. Objects and leaves that differ from rank to rank are kept for each, below "ranks" and
/// the rank. Inputs never change.
///
/// `inputs`: the path of one file, of a checkpoint's, a run's or a model's directory, or of the
/// index of a model (.json); or several files, which are the shards of one checkpoint in the order
/// of their ranks. Of a run its latest checkpoint is taken.
/// `output`: the file or directory to write. It appears under its name whole or not at all.
///
/// Errors, after which nothing was written: kInvalidArgument (the output is an input or holds one;
/// a selection that meets nothing; names that become one; an attribute that safetensors cannot
/// hold), kAlreadyExists, kNotFound (also of an attribute to leave out), kIncomplete
/// (a shard is missing, or no piece holds some elements), kMismatch (copies differ), kCorrupt,
/// kUnsupported, kCancelled, and those of storage. kDurabilityUnknown: the output is there, but a
/// power cut may undo it.
///
/// Thread-safe, except that only one call at a time may write one output. It has threads and
/// memory of its own, and returns when the output is durable. What a callback throws stops
/// the merge: kInvalidArgument with its text.
Result<MergeReport> Merge(std::span<const std::string> inputs, const std::string& output,
                          const MergeOptions& options = {});
inline Result<MergeReport> Merge(const std::string& input, const std::string& output,
                                 const MergeOptions& options = {}) {
  return Merge(std::span(&input, 1), output, options);
}

}  // namespace dsckpt

#endif  // DSCKPT_MERGE_H_
