#ifndef DSCKPT_PYTHON_EXTENTS_H_
#define DSCKPT_PYTHON_EXTENTS_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "python/src/dlpack.h"

namespace dsckpt::python {

namespace nb = nanobind;

/// Reads tensors of exactly these types; null where their framework has no such table.
const DlpackExchange* FindExchange(const std::vector<PyTypeObject*>& tensor_types);

/// The memory of some tensors, as ranges of addresses. GIL held.
class Extents {
 public:
  explicit Extents(const nb::tuple& tensor_types);
  /// Adds tensors, and returns those that it cannot look at.
  nb::list Add(const nb::sequence& tensors);
  void AddRange(uintptr_t begin, uintptr_t end);
  /// Whether [address, address + bytes) lies in one tensor's memory, or in tensors that overlap.
  bool Holds(uintptr_t address, uint64_t bytes);

 private:
  void Merge();

  std::vector<PyTypeObject*> types_;
  const DlpackExchange* exchange_;
  std::vector<std::pair<uintptr_t, uintptr_t>> ranges_;
  bool merged_ = true;
};

}  // namespace dsckpt::python

#endif  // DSCKPT_PYTHON_EXTENTS_H_
