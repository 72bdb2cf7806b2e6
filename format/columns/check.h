#ifndef DSCKPT_FORMAT_COLUMNS_CHECK_H_
#define DSCKPT_FORMAT_COLUMNS_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "dsckpt/status.h"
#include "format/columns/columns.h"

// Rules that columns of an index and of a manifest share. `part` is what messages begin with:
// "index" or "manifest".

namespace dsckpt::format {

/// kCorrupt: "<part>: <where>: <field>: expected <expected>, found <found>".
Status ColumnError(std::string_view part, std::string_view where, std::string_view field,
                   std::string_view expected, std::string_view found);
Status ColumnError(std::string_view part, std::string_view where, std::string_view field,
                   uint64_t expected, uint64_t found);

/// What a message calls item `i`: "tensor 'a/b'"; "tensor 3" where its name is not in `names`, so
/// that a message can be made before names were checked.
std::string ItemTitle(std::string_view kind, const NameView& names, uint32_t i);

struct ColumnLength {
  std::string_view name;
  size_t expected;
  size_t found;
};
Status CheckLengths(std::string_view part, std::span<const ColumnLength> columns);

/// Ends in range, names legal and strictly ascending.
Status CheckNames(std::string_view part, const NameView& names, const std::string& kind);

/// Descriptions that can be, those of this release where it knows the code; one a code.
Status CheckDTypes(std::string_view part, std::span<const DTypeRecord> dtypes);

/// As ElementCount() and TensorBytes(), without their messages. False on overflow, a negative
/// dimension or a cut block.
bool ShapeElements(std::span<const int64_t> shape, uint64_t& elements);
bool ShapeBytes(std::span<const int64_t> shape, const DTypeRecord& dtype, uint64_t& bytes);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_COLUMNS_CHECK_H_
