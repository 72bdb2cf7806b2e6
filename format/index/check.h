#ifndef DSCKPT_FORMAT_INDEX_CHECK_H_
#define DSCKPT_FORMAT_INDEX_CHECK_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "dsckpt/status.h"
#include "format/columns/columns.h"
#include "format/index/index.h"

// The parts of ParseIndex that look at columns; they need no FlatBuffer.

namespace dsckpt::format {

/// How messages call what is wrong in an index.
inline constexpr std::string_view kIndexPart = "index";

/// kCorrupt: "index: <where>: <field>: expected <expected>, found <found>".
Status IndexError(std::string_view where, std::string_view field, std::string_view expected,
                  std::string_view found);
Status IndexError(std::string_view where, std::string_view field, uint64_t expected,
                  uint64_t found);

/// Lengths of the columns, names, dtypes, shapes, sums and ordinals.
Status CheckItems(const IndexView& index);
/// Statistics and vendor data. REQUIRES: the tensors of `index` were checked.
Status CheckAnnotations(const IndexView& index);
/// Offsets. REQUIRES: CheckItems passed.
Status CheckLayout(const IndexView& index, const Geometry& geometry);
/// A pre-order tree, and that it names only items that exist.
Status CheckTree(const TreeView& tree, const IndexView& index);
/// Checks the attributes: a dict of leaves.
Status CheckAttributes(const TreeView& attributes);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_INDEX_CHECK_H_
