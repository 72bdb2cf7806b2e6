#ifndef DSCKPT_WRITER_DESCRIBE_H_
#define DSCKPT_WRITER_DESCRIBE_H_

#include <memory>

#include "dsckpt/engine.h"
#include "format/catalog.h"

namespace dsckpt {

/// A description and the file image it leads to. The engine keeps the newest one, so that a
/// repeated save with the same names, dtypes and shapes skips sorting and laying out.
struct Described {
  Description description;
  std::shared_ptr<const format::Catalog> catalog;

  const Description::Data& data() const { return description.data(); }
};

/// Runs the provider and finds the layout: that of `cached` (may be null) where it holds.
Result<std::shared_ptr<Described>> Describe(const StateProvider& provider,
                                            const SaveOptions& options, const Described* cached);

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_DESCRIBE_H_
