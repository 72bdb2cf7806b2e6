#ifndef DSCKPT_TRAJECTORY_INDEX_COLUMNS_H_
#define DSCKPT_TRAJECTORY_INDEX_COLUMNS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "dsckpt/dtype.h"
#include "dsckpt/encoding.h"
#include "dsckpt/tensor_statistics.h"

// What is kept of the indexes of many checkpoints: names and forms once, and for each checkpoint a
// column of what it says of each name.

namespace dsckpt::trajectory {

struct Form {
  DTypeInfo dtype;
  std::vector<int64_t> shape;
  uint64_t bytes = 0;
};

enum class DigestKind : uint8_t {
  kNone,
  kWhole,   ///< The tensor's own.
  kPieces,  ///< Of its pieces.
};

/// What one checkpoint says of one tensor.
struct Cell {
  uint32_t form = 0;
  DigestKind kind = DigestKind::kNone;
  Hash128 digest;
  std::optional<TensorStatistics> statistics;
};

/// The cells of one checkpoint, by name.
class Column {
 public:
  void Set(uint32_t name, const Cell& cell);
  /// Nothing where the checkpoint lacks the tensor.
  std::optional<Cell> Find(uint32_t name) const;
  /// Gives each name its new number.
  void Renumber(const std::vector<uint32_t>& number_of);

 private:
  static constexpr uint32_t kAbsent = UINT32_MAX;
  std::vector<uint32_t> forms_;
  std::vector<DigestKind> kinds_;
  std::vector<Hash128> digests_;
  /// Empty in checkpoints without statistics.
  std::vector<std::optional<TensorStatistics>> statistics_;
};

/// Names and forms, by number. Not thread-safe.
class Tables {
 public:
  uint32_t NameNumber(std::string_view name);
  uint32_t FormNumber(const DTypeInfo& dtype, std::vector<int64_t> shape, uint64_t bytes);
  /// Puts the names in order; returns the new number of each.
  std::vector<uint32_t> Sort();

  std::optional<uint32_t> Find(std::string_view name) const;
  uint32_t name_count() const { return static_cast<uint32_t>(names_.size()); }
  std::string_view name(uint32_t i) const { return *names_[i]; }
  const Form& form(uint32_t i) const { return *forms_[i]; }

 private:
  using FormKey = std::pair<uint16_t, std::vector<int64_t>>;
  std::map<std::string, uint32_t, std::less<>> number_of_name_;
  std::vector<const std::string*> names_;  // keys of the map
  std::map<FormKey, std::pair<uint32_t, Form>> number_of_form_;
  std::vector<const Form*> forms_;  // values of the map
};

}  // namespace dsckpt::trajectory

#endif  // DSCKPT_TRAJECTORY_INDEX_COLUMNS_H_
