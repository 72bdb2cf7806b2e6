#include "format/manifest/dtypes.h"

#include <algorithm>

#include "dsckpt/limits.h"

namespace dsckpt::format {

Status SetLogicalDTypes(std::span<const DTypeRecord> by_logical, ManifestColumns& out) {
  const auto below = [](const DTypeRecord& a, const DTypeRecord& b) { return a.code < b.code; };
  std::vector<DTypeRecord>& table = out.dtypes;
  for (const DTypeRecord& dtype : by_logical) {
    const auto at = std::lower_bound(table.begin(), table.end(), dtype, below);
    if (at == table.end() || at->code != dtype.code) {
      table.insert(at, dtype);
    } else if (*at != dtype) {
      return Status(StatusCode::kMismatch,
                    "dtype " + std::to_string(dtype.code) +
                        " is described in two ways: " + std::to_string(at->block_elements) +
                        " elements in " + std::to_string(at->block_bytes) + " bytes, and " +
                        std::to_string(dtype.block_elements) + " in " +
                        std::to_string(dtype.block_bytes));
    }
    if (table.size() > kMaxDistinctTypes) {
      return Status(StatusCode::kLimitExceeded, "the logical tensors have more than " +
                                                    std::to_string(kMaxDistinctTypes) +
                                                    " distinct dtypes");
    }
  }
  out.logical_dtype.reserve(by_logical.size());
  for (const DTypeRecord& dtype : by_logical) {
    const auto at = std::lower_bound(table.begin(), table.end(), dtype, below);
    out.logical_dtype.push_back(static_cast<uint8_t>(at - table.begin()));
  }
  return {};
}

}  // namespace dsckpt::format
