#ifndef DSCKPT_RUN_SAVE_ORDER_H_
#define DSCKPT_RUN_SAVE_ORDER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

// The order in which the checkpoints of a run were saved, and which of them training has left
// behind (spec/commit.md, "Order of saves").

namespace dsckpt::run {

/// What the order of saves needs to know of a complete checkpoint.
struct SaveRecord {
  std::string name;
  std::optional<int64_t> step;
  uint64_t serial = 0;  ///< From its manifest; 0: not known.
  uint64_t parent = 0;  ///< The serial of the save that training went on from; 0: not known.
};

/// By serial, then step, then name: those that no save of the run made come first.
bool SavedBefore(const SaveRecord& a, const SaveRecord& b);

/// Positions in the order in which a resume without `latest` tries them: the last save first, those
/// whose step is not known behind all others.
std::vector<size_t> ResumeOrder(std::span<const SaveRecord> saves);

/// By position: whether training has left the checkpoint behind: it is not on the line of saves
/// that leads to what `latest` names, or else to the newest. Next on the line after a save is the
/// newest one that is not after its parent and, since training may be set back without a word, has
/// a step below those of all saves on the line so far. One whose serial is not known is never
/// abandoned.
std::vector<bool> FindAbandoned(std::span<const SaveRecord> saves,
                                const std::optional<std::string>& latest);

}  // namespace dsckpt::run

#endif  // DSCKPT_RUN_SAVE_ORDER_H_
