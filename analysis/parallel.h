#ifndef DSCKPT_ANALYSIS_PARALLEL_H_
#define DSCKPT_ANALYSIS_PARALLEL_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "dsckpt/analysis.h"
#include "dsckpt/status.h"

// Tiles of many tensors, spread over threads.

namespace dsckpt::analysis {

/// One part of a tensor, which is looked at alone.
struct Tile {
  uint32_t item;   ///< position in the caller's list
  uint32_t index;  ///< among the tiles of the item
  uint64_t bytes;  ///< for the progress
};

/// Calls `work(tile, worker)` for all tiles, in their order as far as threads go; `worker` counts
/// from 0. Returns the error of the first tile that has one; tiles behind it may be left out.
Status ForEachTile(const std::vector<Tile>& tiles, const AnalysisOptions& options,
                   const std::function<Status(const Tile& tile, size_t worker)>& work);

/// As many threads as ForEachTile() takes at most.
size_t Workers(const AnalysisOptions& options);

}  // namespace dsckpt::analysis

#endif  // DSCKPT_ANALYSIS_PARALLEL_H_
