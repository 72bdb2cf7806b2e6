#include "tools/arrow_column.h"

#include <bit>

namespace dsckpt::tools {
namespace {

static_assert(std::endian::native == std::endian::little, "buffers are little-endian");

template <typename Number>
Number IntegerOf(const Cell& cell) {
  if (const auto* number = std::get_if<int64_t>(&cell)) return static_cast<Number>(*number);
  return static_cast<Number>(std::get<uint64_t>(cell));
}

}  // namespace

template <typename Number>
void ArrowColumn::AddNumber(Number number) {
  values_.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void ArrowColumn::Clear() {
  length_ = nulls_ = 0;
  valid_.clear();
  offsets_.assign(1, 0);
  values_.clear();
}

void ArrowColumn::Add(const Cell& cell) {
  const bool missing = IsMissing(cell);
  if (length_ % 8 == 0) valid_ += '\0';
  if (!missing) valid_.back() = static_cast<char>(valid_.back() | 1 << length_ % 8);
  ++length_;
  nulls_ += missing;
  switch (type_) {
    case CellType::kText:
      if (!missing) values_ += std::get<std::string>(cell);
      offsets_.push_back(static_cast<int32_t>(values_.size()));
      break;
    case CellType::kShape: {
      if (!missing) {
        for (const int64_t size : std::get<std::vector<int64_t>>(cell)) AddNumber(size);
      }
      offsets_.push_back(static_cast<int32_t>(values_.size() / sizeof(int64_t)));
      break;
    }
    case CellType::kUint32:
      AddNumber(missing ? uint32_t{0} : IntegerOf<uint32_t>(cell));
      break;
    case CellType::kInt32:
      AddNumber(missing ? int32_t{0} : IntegerOf<int32_t>(cell));
      break;
    case CellType::kUint64:
      AddNumber(missing ? uint64_t{0} : IntegerOf<uint64_t>(cell));
      break;
    case CellType::kInt64:
      AddNumber(missing ? int64_t{0} : IntegerOf<int64_t>(cell));
      break;
    case CellType::kDouble:
      AddNumber(missing ? 0.0 : std::get<double>(cell));
      break;
  }
}

std::vector<ArrowColumn::Array> ArrowColumn::Arrays() const {
  std::vector<Array> arrays = {{length_, nulls_}};
  if (type_ == CellType::kShape) arrays.push_back({values_.size() / sizeof(int64_t), 0});
  return arrays;
}

std::vector<std::string_view> ArrowColumn::Buffers() const {
  // Where no value is missing, the bitmap may be.
  std::vector<std::string_view> buffers = {nulls_ == 0 ? std::string_view() : valid_};
  if (has_offsets()) {
    buffers.emplace_back(reinterpret_cast<const char*>(offsets_.data()),
                         offsets_.size() * sizeof(int32_t));
  }
  if (type_ == CellType::kShape) buffers.emplace_back();
  buffers.push_back(values_);
  return buffers;
}

uint64_t ArrowColumn::bytes() const {
  return valid_.size() + (has_offsets() ? offsets_.size() * sizeof(int32_t) : 0) + values_.size();
}

}  // namespace dsckpt::tools
