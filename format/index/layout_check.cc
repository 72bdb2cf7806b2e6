// Every offset against that rule.

#include <array>
#include <string>

#include "dsckpt/limits.h"
#include "format/index/check.h"
#include "format/layout.h"
#include "format/names.h"

// The layout is a function of names, dtypes, sizes and encodings. So every offset is predicted, and
// holes or overlaps need no search.

namespace dsckpt::format {
namespace {

bool IsRaw(const PayloadView& payload, uint32_t i) {
  return payload.encoding[i] == static_cast<uint8_t>(Encoding::kRaw);
}

Status Mismatch(std::string_view kind, std::string_view name, std::string_view field,
                uint64_t expected, uint64_t found) {
  return IndexError(std::string(kind) + " '" + Printable(name) + "'", field, expected, found);
}

class LayoutCheck {
 public:
  LayoutCheck(const IndexView& index, const Geometry& geometry)
      : index_(index), geometry_(geometry) {
    for (size_t i = 0; i < index.dtypes.size(); ++i) {
      const auto known = FindDType(DType{index.dtypes[i].code});
      listable_[i] = known && known->listable;
    }
  }

  Status Count() {
    for (uint32_t i = 0; i < index_.tensor_names.size(); ++i) {
      const uint64_t bytes = index_.tensors.raw_bytes[i];
      if (IsRaw(index_.tensors, i) && !layout_.Count(Listable(i), bytes)) {
        return IndexError("tensor '" + Printable(index_.tensor_names[i]) + "'", "raw_bytes",
                          "all raw tensors together at most " + std::to_string(kMaxFileBytes),
                          std::to_string(bytes) + " more");
      }
    }
    layout_.Place(geometry_.data_begin);
    if (layout_.tail_begin() != geometry_.tail_begin) {
      return IndexError("footer", "tail_begin", layout_.tail_begin(), geometry_.tail_begin);
    }
    return {};
  }

  Status CheckRaw() {
    for (uint32_t i = 0; i < index_.tensor_names.size(); ++i) {
      if (!IsRaw(index_.tensors, i)) continue;
      const uint64_t expected = layout_.Next(Listable(i), index_.tensors.raw_bytes[i]);
      if (index_.tensors.offset[i] != expected) {
        return Mismatch("tensor", index_.tensor_names[i], "offset", expected,
                        index_.tensors.offset[i]);
      }
    }
    return {};
  }

  // Objects and encoded tensors, merged by name.
  Status CheckLog() {
    log_end_ = layout_.log_begin();
    uint32_t object = 0;
    for (uint32_t i = 0; i < index_.tensor_names.size(); ++i) {
      if (IsRaw(index_.tensors, i)) continue;
      const std::string_view name = index_.tensor_names[i];
      DSCKPT_RETURN_IF_ERROR(CheckObjects(object, &name));
      DSCKPT_RETURN_IF_ERROR(CheckLogItem("tensor", name, index_.tensors, i));
    }
    DSCKPT_RETURN_IF_ERROR(CheckObjects(object, nullptr));
    if (RoundUp(log_end_, kLogAlignment) != geometry_.index_offset) {
      return IndexError("footer", "index_offset", RoundUp(log_end_, kLogAlignment),
                        geometry_.index_offset);
    }
    return {};
  }

 private:
  bool Listable(uint32_t tensor) const { return listable_[index_.tensor_dtype[tensor]]; }

  // The objects from `object` on that come before `limit`.
  Status CheckObjects(uint32_t& object, const std::string_view* limit) {
    for (; object < index_.object_names.size(); ++object) {
      const std::string_view name = index_.object_names[object];
      if (limit != nullptr && name > *limit) break;
      DSCKPT_RETURN_IF_ERROR(CheckLogItem("object", name, index_.objects, object));
    }
    return {};
  }

  Status CheckLogItem(std::string_view kind, std::string_view name, const PayloadView& payload,
                      uint32_t i) {
    const uint64_t expected = RoundUp(log_end_, kLogAlignment);
    if (payload.offset[i] != expected) {
      return Mismatch(kind, name, "offset", expected, payload.offset[i]);
    }
    // Also keeps the sum from wrapping.
    if (expected > geometry_.index_offset ||
        payload.stored_bytes[i] > geometry_.index_offset - expected) {
      return IndexError(std::string(kind) + " '" + Printable(name) + "'", "end",
                        "at most the index's offset " + std::to_string(geometry_.index_offset),
                        std::to_string(expected) + " + " + std::to_string(payload.stored_bytes[i]));
    }
    log_end_ = expected + payload.stored_bytes[i];
    return {};
  }

  const IndexView& index_;
  const Geometry& geometry_;
  std::array<bool, kMaxDistinctTypes> listable_{};
  RawLayout layout_;
  uint64_t log_end_ = 0;
};

}  // namespace

Status CheckLayout(const IndexView& index, const Geometry& geometry) {
  if (geometry.data_begin > geometry.tail_begin || geometry.tail_begin > geometry.index_offset ||
      geometry.index_offset > kMaxFileBytes) {
    return IndexError("footer", "regions", "data_begin <= tail_begin <= index_offset",
                      std::to_string(geometry.data_begin) + ", " +
                          std::to_string(geometry.tail_begin) + ", " +
                          std::to_string(geometry.index_offset));
  }
  LayoutCheck check(index, geometry);
  DSCKPT_RETURN_IF_ERROR(check.Count());
  DSCKPT_RETURN_IF_ERROR(check.CheckRaw());
  return check.CheckLog();
}

}  // namespace dsckpt::format
