#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cmath>
#include <list>

#include "dsckpt/checkpoint.h"
#include "python/src/bind.h"
#include "python/src/buffer.h"
#include "python/src/infos.h"
#include "python/src/status.h"
#include "python/src/text.h"
#include "python/src/values.h"

namespace dsckpt::python {
namespace {

using namespace nb::literals;
using Box = std::vector<std::pair<int64_t, int64_t>>;
using Request = std::tuple<std::string, std::optional<Box>, nb::object>;

void InitCheckpoint(Checkpoint* self, const FsPath& path, double retry_seconds) {
  CheckpointOptions options;
  options.retry = std::chrono::milliseconds(std::llround(retry_seconds * 1000));
  new (self) Checkpoint(Unwrap(WithoutGil([&] { return Checkpoint::Open(path.bytes, options); })));
}

nb::list Shards(const Checkpoint& self) {
  nb::list out;
  for (uint32_t i = 0; i < self.shard_count(); ++i) {
    const ShardInfo shard = self.shard(i);
    out.append(nb::make_tuple(ToStr(shard.name), shard.rank, shard.file_bytes));
  }
  return out;
}

File OpenShard(const Checkpoint& self, uint32_t shard) {
  if (shard >= self.shard_count()) throw nb::index_error("no such shard");
  return Unwrap(WithoutGil([&] { return self.OpenShard(shard); }));
}

nb::list Tensors(const Checkpoint& self) {
  nb::list out;
  for (uint32_t i = 0; i < self.tensor_count(); ++i) {
    const LogicalTensorInfo info = self.tensor(i);
    nb::list shape;
    for (const int64_t size : info.shape) shape.append(size);
    out.append(nb::make_tuple(ToStr(info.name), ToStr(info.dtype.name), nb::tuple(shape),
                              info.bytes, info.piece_count));
  }
  return out;
}

uint32_t Checked(const Checkpoint& self, uint32_t tensor) {
  if (tensor >= self.tensor_count()) throw nb::index_error("no such tensor");
  return tensor;
}

nb::list Pieces(const Checkpoint& self, uint32_t tensor) {
  nb::list out;
  for (PieceLocation& location : self.Pieces(Checked(self, tensor))) {
    out.append(nb::make_tuple(location.shard, location.tensor, std::move(location.piece)));
  }
  return out;
}

std::optional<std::string> Digest(const Checkpoint& self, uint32_t tensor, bool compute) {
  Checked(self, tensor);
  return ToHex(Unwrap(WithoutGil([&]() -> Result<std::optional<Hash128>> {
    if (!compute) return self.Digest(tensor);
    DSCKPT_ASSIGN_OR_RETURN(const Hash128 digest, self.ComputeDigest(tensor));
    return std::optional(digest);
  })));
}

std::optional<nb::tuple> Statistics(const Checkpoint& self, uint32_t tensor) {
  Checked(self, tensor);
  return ToTuple(Unwrap(WithoutGil([&] { return self.Statistics(tensor); })));
}

void Read(const Checkpoint& self, const std::vector<Request>& requests) {
  std::list<OutBuffer> buffers;
  std::list<std::vector<Range>> boxes;
  std::vector<BoxRequest> reads;
  for (const auto& [name, box, out] : requests) {
    BoxRequest read;
    read.name = name;
    read.whole = !box.has_value();
    if (box) {
      auto& ranges = boxes.emplace_back();
      for (const auto& [begin, end] : *box) ranges.push_back({begin, end});
      read.box = ranges;
    }
    read.out = buffers.emplace_back(out).bytes();
    reads.push_back(read);
  }
  Check(WithoutGil([&] { return self.Read(reads); }));
}

nb::list Entries(const RunDirectory& self) {
  nb::list out;
  for (const RunEntry& entry : self.checkpoints()) {
    out.append(nb::make_tuple(FsPath{entry.name}, entry.step, entry.bytes, entry.shards,
                              entry.serial, entry.abandoned));
  }
  return out;
}

}  // namespace

void BindCheckpoint(nb::module_& module) {
  nb::class_<Checkpoint>(module, "Checkpoint")
      .def("__init__", &InitCheckpoint, "path"_a, nb::kw_only(), "retry_seconds"_a = 5.0)
      .def_prop_ro("path", [](const Checkpoint& self) { return FsPath{self.path()}; })
      .def_prop_ro("has_manifest", &Checkpoint::has_manifest)
      .def_prop_ro("step",
                   [](const Checkpoint& self) -> std::optional<int64_t> {
                     if (self.step() == kUnknownStep) return std::nullopt;
                     return self.step();
                   })
      .def_prop_ro("attempt", [](const Checkpoint& self) { return ToStr(self.attempt()); })
      .def_prop_ro("ranks", &Checkpoint::ranks)
      .def_prop_ro("content_digest",
                   [](const Checkpoint& self) { return ToHex(self.ContentDigest()); })
      .def("shards", &Shards)
      .def("open_shard", &OpenShard, "shard"_a)
      .def("tensors", &Tensors)
      .def("pieces", &Pieces, "tensor"_a)
      .def(
          "check_coverage",
          [](const Checkpoint& self, uint32_t tensor) {
            Checked(self, tensor);
            Check(WithoutGil([&] { return self.CheckCoverage(tensor); }));
          },
          "tensor"_a)
      .def(
          "compare_copies",
          [](const Checkpoint& self, uint32_t tensor) {
            Checked(self, tensor);
            Check(WithoutGil([&] { return self.CompareCopies(tensor); }));
          },
          "tensor"_a)
      .def("digest", &Digest, "tensor"_a, nb::kw_only(), "compute"_a = false)
      .def("statistics", &Statistics, "tensor"_a)
      .def("read", &Read, "requests"_a)
      .def_prop_ro("open_shard_count", &Checkpoint::open_shard_count);
  nb::class_<RunDirectory>(module, "RunDirectory")
      .def(
          "__init__",
          [](RunDirectory* self, const FsPath& path) {
            new (self)
                RunDirectory(Unwrap(WithoutGil([&] { return RunDirectory::Open(path.bytes); })));
          },
          "path"_a)
      .def_prop_ro("path", [](const RunDirectory& self) { return FsPath{self.path()}; })
      .def_prop_ro("latest_name", &RunDirectory::latest_name)
      .def("checkpoints", &Entries)
      .def("ignored_entries", &RunDirectory::ignored_entries)
      .def("latest",
           [](const RunDirectory& self) {
             return Unwrap(WithoutGil([&] { return self.Latest(); }));
           })
      .def(
          "by_step",
          [](const RunDirectory& self, int64_t step) {
            return Unwrap(WithoutGil([&] { return self.ByStep(step); }));
          },
          "step"_a);
}

}  // namespace dsckpt::python
