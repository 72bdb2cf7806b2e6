#ifndef DSCKPT_MERGE_METADATA_H_
#define DSCKPT_MERGE_METADATA_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/engine.h"
#include "dsckpt/file.h"
#include "dsckpt/merge.h"
#include "dsckpt/status.h"

// The members of the safetensors `__metadata__` that belong to the user: what a conversion keeps of
// them.

namespace dsckpt::merge {

using Members = std::vector<std::pair<std::string, std::string>>;

/// A second name of a tensor, as other tools record it in the metadata of a plain file. (Shards
/// have aliases in their index.)
struct Tie {
  std::string name;   ///< no tensor of the file
  std::string owner;  ///< a tensor of the file
};

/// Members of one file, sorted out. Those that dsckpt writes itself are left out.
struct FileMetadata {
  Members members;  ///< `format` among them
  std::vector<Tie> ties;
};
Result<FileMetadata> ReadMetadata(const File& file);

/// Members of all inputs. Where files say different things under one key, none is right: it is left
/// out of `members`, and stands in `conflicts`.
class Metadata {
 public:
  void Add(const std::string& file, const Members& members);
  /// Of a file whose header is damaged nothing is known.
  void AddUnreadable(const Status& why) { unreadable_.push_back(why); }
  const std::vector<Status>& unreadable() const { return unreadable_; }
  /// Attributes of a shard as members, for an output that has no attributes: those that text can
  /// express, under keys that no member has, and in which the shards do not differ. After the
  /// members of all shards.
  void AddAttributes(const File& file);
  /// What the output is to say of attributes. In an output without any (`as_members`) all of it is
  /// a matter of members; else members alone go of which the name is changed. kInvalidArgument: a
  /// value that text cannot express, or a name that dsckpt keeps for itself; kNotFound: nothing of
  /// that name goes, neither here nor among the attributes of `checkpoint`.
  Status Change(const std::vector<AttributeChange>& changes, bool as_members,
                const Checkpoint& checkpoint);
  /// How many names of attributes that text cannot express, or that a member keeps out.
  uint64_t left_out_attributes() const { return left_out_attributes_.size(); }
  /// How many names of attributes are in no member for any reason: these, and conflicts.
  uint64_t lost_attributes() const;

  Members members() const;
  std::vector<MergeConflict> conflicts() const;
  /// Puts the members into what a save writes; conflicting ones are left out.
  void ApplyTo(SaveOptions& options) const;

 private:
  using Said = MergeConflict::Said;
  using Keys = std::map<std::string, std::vector<Said>>;
  static void Say(Keys& keys, const std::string& key, Said said);

  Keys keys_, attributes_;  // no key in both
  std::set<std::string> left_out_attributes_;
  std::vector<Status> unreadable_;
};

/// The members of all shards and of `index`. Without `verify` a shard whose header is damaged is no
/// error.
Result<Metadata> MergeMetadata(const Checkpoint& checkpoint, const std::string& index,
                               const Members& index_members, bool verify = true);

/// The step of a merge of plain safetensors: what all files' metadata say, or the name of a file
/// that stands alone. Nothing where shards have one of their own.
Result<std::optional<int64_t>> StepOfPlain(const Checkpoint& checkpoint, const Members& members);

/// Attributes in which the shards differ, in byte order.
Result<std::vector<std::string>> DifferingAttributes(const Checkpoint& checkpoint);

}  // namespace dsckpt::merge

#endif  // DSCKPT_MERGE_METADATA_H_
