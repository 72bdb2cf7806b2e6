#include "python/src/extents.h"

#include <algorithm>

namespace dsckpt::python {

const DlpackExchange* FindExchange(const std::vector<PyTypeObject*>& tensor_types) {
  if (tensor_types.empty()) return nullptr;
  const nb::handle type(reinterpret_cast<PyObject*>(tensor_types.front()));
  const nb::object capsule = nb::getattr(type, "__dlpack_c_exchange_api__", nb::none());
  if (!PyCapsule_CheckExact(capsule.ptr())) return nullptr;
  const auto* exchange = static_cast<const DlpackExchange*>(
      PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  if (exchange == nullptr) PyErr_Clear();
  const bool usable = exchange != nullptr && exchange->major == 1 && exchange->lend != nullptr;
  return usable ? exchange : nullptr;
}

Extents::Extents(const nb::tuple& tensor_types) {
  for (const nb::handle type : tensor_types) {
    types_.push_back(reinterpret_cast<PyTypeObject*>(type.ptr()));
  }
  exchange_ = FindExchange(types_);
}

nb::list Extents::Add(const nb::sequence& tensors) {
  nb::list others;
  for (const nb::handle tensor : tensors) {
    const bool known =
        std::find(types_.begin(), types_.end(), Py_TYPE(tensor.ptr())) != types_.end();
    nb::dlpack::dltensor lent;
    if (!known || exchange_ == nullptr || exchange_->lend(tensor.ptr(), &lent) != 0) {
      PyErr_Clear();
      others.append(tensor);
      continue;
    }
    int64_t last = 0, contiguous = 1;  // Reach in elements, from the first to the last.
    bool empty = false;
    for (int32_t i = lent.ndim; i-- > 0;) {
      empty = empty || lent.shape[i] == 0;
      last += (lent.shape[i] - 1) * (lent.strides != nullptr ? lent.strides[i] : contiguous);
      contiguous *= lent.shape[i];
    }
    if (empty || last < 0) continue;
    const auto begin = reinterpret_cast<uintptr_t>(lent.data) + lent.byte_offset;
    const uint64_t bits = uint64_t{lent.dtype.bits} * lent.dtype.lanes;
    AddRange(begin, begin + (static_cast<uint64_t>(last) + 1) * bits / 8);
  }
  return others;
}

void Extents::AddRange(uintptr_t begin, uintptr_t end) {
  if (begin < end) ranges_.emplace_back(begin, end);
  merged_ = false;
}

bool Extents::Holds(uintptr_t address, uint64_t bytes) {
  Merge();
  const auto after =
      std::upper_bound(ranges_.begin(), ranges_.end(), address,
                       [](uintptr_t value, const auto& range) { return value < range.first; });
  return after != ranges_.begin() && address + bytes <= std::prev(after)->second;
}

void Extents::Merge() {
  if (merged_) return;
  std::sort(ranges_.begin(), ranges_.end());
  size_t kept = 0;
  for (size_t i = 1; i < ranges_.size(); ++i) {
    if (ranges_[i].first < ranges_[kept].second) {
      ranges_[kept].second = std::max(ranges_[kept].second, ranges_[i].second);
    } else {
      ranges_[++kept] = ranges_[i];
    }
  }
  if (!ranges_.empty()) ranges_.resize(kept + 1);
  merged_ = true;
}

}  // namespace dsckpt::python
