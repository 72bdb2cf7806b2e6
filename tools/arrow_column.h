#ifndef DSCKPT_TOOLS_ARROW_COLUMN_H_
#define DSCKPT_TOOLS_ARROW_COLUMN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/cell.h"

namespace dsckpt::tools {

/// The values of one column of a record batch, as the buffers that Arrow lays out for them.
class ArrowColumn {
 public:
  explicit ArrowColumn(CellType type) : type_(type) { Clear(); }

  /// REQUIRES: the cell is missing or of the column's type.
  void Add(const Cell& cell);
  void Clear();

  /// An array: of the column, or of what its lists hold.
  struct Array {
    uint64_t length, nulls;
  };
  /// The column's own, and for lists that of their elements.
  std::vector<Array> Arrays() const;
  /// In the order in which Arrow has them: of the column, then of the elements of lists.
  std::vector<std::string_view> Buffers() const;
  /// How much memory they take together.
  uint64_t bytes() const;

 private:
  bool has_offsets() const { return type_ == CellType::kText || type_ == CellType::kShape; }
  template <typename Number>
  void AddNumber(Number number);

  CellType type_;
  uint64_t length_ = 0, nulls_ = 0;
  std::string valid_;  // One bit a value, the lowest first.
  std::vector<int32_t> offsets_;
  std::string values_;
};

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_ARROW_COLUMN_H_
