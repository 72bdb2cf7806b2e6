#ifndef DSCKPT_READER_CHECKPOINT_OWN_SUBTREES_H_
#define DSCKPT_READER_CHECKPOINT_OWN_SUBTREES_H_

// What a state to restore declares to be the rank's own.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/rank_own.h"
#include "reader/checkpoint/checkpoint_impl.h"
#include "reader/name_list.h"
#include "state/description.h"

namespace dsckpt::reader {

/// The subtrees that a description declares to be the rank's own, and what was found of each.
/// Borrows the description.
class OwnSubtrees {
 public:
  explicit OwnSubtrees(const Description::Data& wanted)
      : owner_(wanted.identity.rank_owner),
        names_(format::SortedRoots(wanted.identity.rank_own_names)),
        found_(names_.size()),
        missing_(names_.size()) {}

  bool of_another(uint32_t rank) const { return names_.size() != 0 && owner_ != rank; }
  bool Has(std::string_view item) const { return format::IsRankOwn(roots(), item); }
  /// Notes an item that was looked for. False where it lies in none of them.
  bool Note(std::string_view item, bool found);
  /// Adds what is missing of those that are there in part: such a subtree fits no better than any
  /// other state.
  void SayMissing(NameList& missing) const;
  /// Those of which nothing is there.
  std::vector<std::string> Without() const;

 private:
  format::NameView roots() const { return {names_.bytes, names_.ends}; }

  std::optional<uint32_t> owner_;
  format::NameColumns names_;
  std::vector<bool> found_;
  std::vector<std::vector<std::string_view>> missing_;
};

/// "ranks 0 to 1 have 'rng'", for a message: by the tensors there, and where these say nothing by a
/// few of the shards.
std::string OwnersOf(const Checkpoint::Impl& checkpoint, const std::string& root);

}  // namespace dsckpt::reader

#endif  // DSCKPT_READER_CHECKPOINT_OWN_SUBTREES_H_
