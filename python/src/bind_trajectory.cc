// Trajectory: many checkpoints of a run by their indexes.

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <vector>

#include "dsckpt/merge.h"
#include "dsckpt/trajectory.h"
#include "python/src/bind.h"
#include "python/src/buffer.h"
#include "python/src/infos.h"
#include "python/src/status.h"
#include "python/src/text.h"
#include "python/src/values.h"

namespace dsckpt::python {
namespace {

using namespace nb::literals;

constexpr size_t kDigestBytes = 16;

void InitTrajectory(Trajectory* self, const std::vector<FsPath>& paths,
                    const std::optional<std::vector<int64_t>>& steps, const std::string& step_from,
                    uint32_t max_open_files) {
  std::vector<std::string> operands;
  for (const FsPath& path : paths) operands.push_back(path.bytes);
  TrajectoryOptions options;
  options.step_from = step_from;
  options.max_open_files = max_open_files;
  new (self) Trajectory(Unwrap(WithoutGil([&] {
    return steps ? Trajectory::Open(operands, *steps, options)
                 : Trajectory::Open(operands, options);
  })));
}

uint32_t CheckpointAt(const Trajectory& self, uint32_t t) {
  if (t >= self.size()) throw nb::index_error("no such checkpoint");
  return t;
}

uint32_t TensorAt(const Trajectory& self, uint32_t i) {
  if (i >= self.tensor_count()) throw nb::index_error("no such tensor");
  return i;
}

nb::tuple ShapeOf(std::span<const int64_t> shape) {
  nb::list sizes;
  for (const int64_t size : shape) sizes.append(size);
  return nb::tuple(sizes);
}

nb::list Checkpoints(const Trajectory& self) {
  nb::list out;
  for (uint32_t t = 0; t < self.size(); ++t) {
    nb::dict attributes;
    for (const auto& [name, value] : self.attributes(t)) attributes[ToStr(name)] = FromValue(value);
    out.append(nb::make_tuple(self.step(t), FsPath{self.path(t)}, FsPath{self.operand(t)},
                              attributes, ToHex(self.TreeDigest(t))));
  }
  return out;
}

nb::list TensorRows(const Trajectory& self) {
  nb::list out;
  for (uint32_t i = 0; i < self.tensor_count(); ++i) {
    const TrajectoryTensor tensor = self.tensor(i);
    out.append(nb::make_tuple(ToStr(tensor.name), ToStr(tensor.dtype.name), ShapeOf(tensor.shape),
                              tensor.first, tensor.last, tensor.checkpoints, tensor.forms));
  }
  return out;
}

std::vector<uint32_t> Matching(const Trajectory& self, const std::string& pattern) {
  const NameFilter filter{.filters = {pattern}, .excludes = {}};
  std::vector<uint32_t> matching;
  for (uint32_t i = 0; i < self.tensor_count(); ++i) {
    if (filter.Takes(self.tensor(i).name)) matching.push_back(i);
  }
  return matching;
}

/// As its hexadecimal digits are written: the high half first.
void AppendDigest(std::string& out, const std::optional<Hash128>& digest) {
  const Hash128 value = digest.value_or(Hash128{});
  for (const uint64_t half : {value.high, value.low}) {
    for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(half >> shift & 0xFF);
  }
}

nb::bytes Digests(const Trajectory& self, const std::vector<uint32_t>& tensors) {
  std::string out;
  out.reserve(self.size() * tensors.size() * kDigestBytes);
  for (uint32_t t = 0; t < self.size(); ++t) {
    for (const uint32_t i : tensors) AppendDigest(out, self.Digest(t, TensorAt(self, i)));
  }
  return nb::bytes(out.data(), out.size());
}

std::optional<nb::tuple> FormOf(const Trajectory& self, uint32_t t, uint32_t i) {
  const auto form = self.Form(CheckpointAt(self, t), TensorAt(self, i));
  if (!form) return std::nullopt;
  return nb::make_tuple(ToStr(form->dtype.name), ShapeOf(form->shape), form->bytes);
}

nb::object ToMemory(Tensor viewed) {
  auto* tensor = new Tensor(std::move(viewed));
  const nb::capsule owner(tensor, [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  static const std::byte kNothing{};
  const std::byte* data = tensor->bytes().empty() ? &kNothing : tensor->bytes().data();
  const nb::ndarray<nb::memview, const uint8_t, nb::ndim<1>> view(
      reinterpret_cast<const uint8_t*>(data), {tensor->bytes().size()}, owner);
  return nb::cast(view);
}

/// Nothing where the tensor is in pieces.
nb::object ViewOf(const Trajectory& self, uint32_t t, uint32_t i) {
  CheckpointAt(self, t);
  TensorAt(self, i);
  auto viewed = WithoutGil([&] { return self.View(t, i); });
  if (viewed.status().code() == StatusCode::kUnsupported) return nb::none();
  return ToMemory(Unwrap(std::move(viewed)));
}

/// Nothing where View() would copy.
nb::object MappedOf(const Trajectory& self, uint32_t t, uint32_t i) {
  CheckpointAt(self, t);
  TensorAt(self, i);
  auto mapped = Unwrap(WithoutGil([&]() -> Result<std::optional<Tensor>> {
    DSCKPT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, self.OpenCheckpoint(t));
    DSCKPT_ASSIGN_OR_RETURN(const auto info, checkpoint.FindTensor(self.tensor(i).name));
    DSCKPT_ASSIGN_OR_RETURN(const auto whole, checkpoint.FindWhole(info.ordinal));
    return whole ? whole->file.MappedView(whole->info) : std::nullopt;
  }));
  return mapped ? ToMemory(*std::move(mapped)) : nb::none();
}

void ReadInto(const Trajectory& self, uint32_t t, uint32_t i, nb::handle out, uint64_t offset) {
  CheckpointAt(self, t);
  TensorAt(self, i);
  const OutBuffer buffer(out);
  Check(WithoutGil([&] { return self.Read(t, i, offset, buffer.bytes()); }));
}

}  // namespace

void BindTrajectory(nb::module_& module) {
  nb::class_<Trajectory>(module, "Trajectory")
      .def("__init__", &InitTrajectory, "paths"_a, nb::kw_only(), "steps"_a = nb::none(),
           "step_from"_a = "auto", "max_open_files"_a = 256)
      .def("checkpoints", &Checkpoints)
      .def("tensors", &TensorRows)
      .def("skipped",
           [](const Trajectory& self) {
             nb::list out;
             for (const auto& [path, why] : self.skipped()) {
               out.append(nb::make_tuple(FsPath{path}, Message{why}));
             }
             return out;
           })
      .def_prop_ro("index_bytes", &Trajectory::index_bytes)
      .def("matching", &Matching, "pattern"_a)
      .def("digests", &Digests, "tensors"_a)
      .def("form", &FormOf, "checkpoint"_a, "tensor"_a)
      .def(
          "statistics",
          [](const Trajectory& self, uint32_t t, uint32_t i) {
            return ToTuple(self.Statistics(CheckpointAt(self, t), TensorAt(self, i)));
          },
          "checkpoint"_a, "tensor"_a)
      .def("mapped", &MappedOf, "checkpoint"_a, "tensor"_a)
      .def("view", &ViewOf, "checkpoint"_a, "tensor"_a)
      .def("read", &ReadInto, "checkpoint"_a, "tensor"_a, "out"_a, nb::kw_only(), "offset"_a = 0);
}

}  // namespace dsckpt::python
