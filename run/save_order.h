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
};

/// By serial, then step, then name: those that no save of the run made come first.
bool SavedBefore(const SaveRecord& a, const SaveRecord& b);

/// The position of what a resume takes: what `latest` names, or else the newest whose step is
/// known, or else the newest. Nothing where there is none. `saves` stand in the order of saves.
std::optional<size_t> FindLatest(std::span<const SaveRecord> saves,
                                 const std::optional<std::string>& latest);

/// By position: whether training has left the checkpoint behind. It was saved after what `latest`
/// names, which was set back then; or what was saved after it, but not after that, has a step at
/// most its own. One whose serial is not known is never abandoned.
std::vector<bool> FindAbandoned(std::span<const SaveRecord> saves,
                                const std::optional<std::string>& latest);

}  // namespace dsckpt::run

#endif  // DSCKPT_RUN_SAVE_ORDER_H_
