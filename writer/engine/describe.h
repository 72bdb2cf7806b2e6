#ifndef DSCKPT_WRITER_ENGINE_DESCRIBE_H_
#define DSCKPT_WRITER_ENGINE_DESCRIBE_H_

// Running providers, reusing layouts.

#include <memory>
#include <vector>

#include "dsckpt/engine.h"
#include "state/file_layout.h"

namespace dsckpt {

/// A description and the file image it leads to. The engine keeps the newest one, so that a
/// repeated save with the same names, dtypes and shapes skips sorting and laying out.
struct LaidOutState {
  Description description;
  std::shared_ptr<const FileLayout> layout;

  const Description::Data& data() const { return description.data(); }
  /// The owners of the sources' memory; here there are none afterwards.
  std::vector<std::shared_ptr<const void>> TakeOwners();
  /// Drops all that is the caller's and keeps what the next description is compared with.
  void DropSources();
};

/// Runs the provider and finds the layout: that of `cached` (may be null) where it holds.
Result<std::shared_ptr<LaidOutState>> Describe(const StateProvider& provider,
                                               const SaveOptions& options,
                                               const LaidOutState* cached);

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_ENGINE_DESCRIBE_H_
