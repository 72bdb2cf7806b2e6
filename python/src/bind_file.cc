#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <sys/mman.h>

#include <cstdio>
#include <tuple>

#include "dsckpt/file.h"
#include "python/src/bind.h"
#include "python/src/buffer.h"
#include "python/src/infos.h"
#include "python/src/status.h"
#include "python/src/text.h"
#include "python/src/tree_builder.h"
#include "python/src/values.h"

namespace dsckpt::python {
namespace {

using namespace nb::literals;
using Box = std::vector<std::pair<int64_t, int64_t>>;
using Request = std::tuple<std::string, uintptr_t, uint64_t, std::optional<std::vector<int64_t>>,
                           int, uintptr_t>;

void InitFile(File* self, const FsPath& path, bool map, int threads, bool ignore_header) {
  const OpenOptions options = {.map = map, .threads = threads, .ignore_header = ignore_header};
  new (self) File(Unwrap(WithoutGil([&] { return File::Open(path.bytes, options); })));
}

nb::list Tensors(const File& self) {
  nb::list out;
  for (uint32_t i = 0; i < self.tensor_count(); ++i) out.append(ToTuple(self.tensor(i)));
  return out;
}

nb::list Aliases(const File& self) {
  nb::list out;
  for (uint32_t i = 0; i < self.alias_count(); ++i) {
    const AliasInfo alias = self.alias(i);
    out.append(nb::make_tuple(ToStr(alias.name), alias.target));
  }
  return out;
}

nb::list Objects(const File& self) {
  nb::list out;
  for (uint32_t i = 0; i < self.object_count(); ++i) out.append(ToTuple(self.object(i)));
  return out;
}

uint32_t Checked(const File& self, uint32_t ordinal) {
  if (ordinal >= self.tensor_count()) throw nb::index_error("no such tensor");
  return ordinal;
}

nb::tuple FindTensor(const File& self, const std::string& name) {
  const auto info = self.FindTensor(name);
  if (info.status().code() == StatusCode::kNotFound) throw nb::key_error(name.c_str());
  return ToTuple(Unwrap(info));
}

std::optional<std::string> Digest(const File& self, uint32_t ordinal) {
  return ToHex(self.Digest(self.tensor(Checked(self, ordinal))));
}

std::optional<std::string> DigestOf(const File& self, const std::string& name, bool compute) {
  const TensorInfo info = Unwrap(self.FindTensor(name));
  if (!compute) return ToHex(self.Digest(info));
  return ToHex(Unwrap(WithoutGil([&] { return self.ComputeDigest(info); })));
}

std::optional<nb::tuple> Statistics(const File& self, const std::string& name) {
  return ToTuple(self.Statistics(Unwrap(self.FindTensor(name))));
}

/// The memory of a private mapping, unmapped with the last view of it.
struct PrivateMapping {
  void* data;
  size_t bytes;
};

nb::object MapPrivate(int fd, size_t bytes) {
  // Without a reserve: a copy exists of those pages alone that somebody writes to.
  void* const data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
  if (data == MAP_FAILED) {
    PyErr_SetFromErrno(PyExc_OSError);
    throw nb::python_error();
  }
  const nb::capsule owner(new PrivateMapping{data, bytes}, [](void* p) noexcept {
    auto* const mapping = static_cast<PrivateMapping*>(p);
    munmap(mapping->data, mapping->bytes);
    delete mapping;
  });
  return nb::cast(nb::ndarray<nb::memview, uint8_t, nb::ndim<1>>(data, {bytes}, owner));
}

std::string ObjectDigest(const File& self, uint32_t ordinal) {
  if (ordinal >= self.object_count()) throw nb::index_error("no such object");
  const ObjectInfo info = self.object(ordinal);
  return *ToHex(Unwrap(WithoutGil([&] { return self.ComputeDigest(info); })));
}

nb::tuple View(const File& self, const std::string& name) {
  auto* tensor = new Tensor(Unwrap(WithoutGil([&] { return self.View(name); })));
  const nb::capsule owner(tensor, [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  static const std::byte kNothing{};
  const std::byte* data = tensor->bytes().empty() ? &kNothing : tensor->bytes().data();
  const nb::ndarray<nb::memview, const uint8_t, nb::ndim<1>> view(
      reinterpret_cast<const uint8_t*>(data), {tensor->bytes().size()}, owner);
  return nb::make_tuple(view, tensor->mapped());
}

void ReadSlice(const File& self, const std::string& name, const Box& box, nb::handle out) {
  std::vector<Range> ranges;
  for (const auto& [begin, end] : box) ranges.push_back({begin, end});
  const OutBuffer buffer(out);
  Check(WithoutGil([&] { return self.ReadSlice(name, ranges, buffer.bytes()); }));
}

void Load(const File& self, const std::vector<Request>& requests, bool verify) {
  std::vector<LoadRequest> loads;
  loads.reserve(requests.size());
  for (const auto& [name, address, bytes, strides, device, stream] : requests) {
    LoadRequest load{.name = name, .data = reinterpret_cast<void*>(address), .bytes = bytes};
    if (strides) load.strides = *strides;
    load.device = device;
    load.stream = reinterpret_cast<Stream>(stream);
    loads.push_back(load);
  }
  Check(WithoutGil([&] { return self.Load(loads, {.verify = verify}); }));
}

nb::bytes ReadObject(const File& self, const std::string& name) {
  const auto bytes = Unwrap(WithoutGil([&] { return self.ReadObject(name); }));
  return nb::bytes(bytes.data(), bytes.size());
}

nb::list RankOwnNames(const File& self) {
  nb::list out;
  for (const std::string_view name : self.RankOwnNames()) out.append(ToStr(name));
  return out;
}

nb::object Build(const File& self, nb::sequence tensors, nb::object make_object,
                 nb::object make_tagged, bool shared_only) {
  const auto tree = self.tree();
  if (!tree) throw nb::value_error("this file has no state tree");
  return TreeBuilder(self, std::move(tensors), std::move(make_object), std::move(make_tagged),
                     shared_only)
      .Build(*tree);
}

nb::dict Attributes(const File& self) {
  nb::dict out;
  const auto attributes = self.attributes();
  if (!attributes) return out;
  for (const Node& node : *attributes) out[FromKey(node.key())] = FromValue(node.value());
  return out;
}

nb::dict Metadata(const File& self) {
  nb::dict out;
  for (const auto& [key, value] : Unwrap(WithoutGil([&] { return self.Metadata(); }))) {
    out[ToStr(key)] = ToStr(value);
  }
  return out;
}

}  // namespace

nb::tuple ToTuple(const TensorInfo& info) {
  nb::list shape;
  for (const int64_t size : info.shape) shape.append(size);
  return nb::make_tuple(ToStr(info.name), ToStr(info.dtype.name), static_cast<int>(info.dtype.code),
                        nb::tuple(shape), info.offset, info.raw_bytes, info.stored_bytes,
                        EncodingName(info.encoding));
}

nb::tuple ToTuple(const ObjectInfo& info) {
  return nb::make_tuple(ToStr(info.name), ToStr(info.media_type), info.offset, info.raw_bytes,
                        info.stored_bytes, EncodingName(info.encoding));
}

std::optional<nb::tuple> ToTuple(const std::optional<TensorStatistics>& statistics) {
  if (!statistics) return std::nullopt;
  return nb::make_tuple(statistics->nan, statistics->inf, statistics->zero, statistics->min,
                        statistics->max, statistics->sum, statistics->sum_squares);
}

std::optional<std::string> ToHex(const std::optional<Hash128>& digest) {
  if (!digest) return std::nullopt;
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(digest->high),
                static_cast<unsigned long long>(digest->low));
  return text;
}

void BindFile(nb::module_& module) {
  module.def("map_private", &MapPrivate, "fd"_a, "bytes"_a);
  nb::class_<File>(module, "File")
      .def("__init__", &InitFile, "path"_a, nb::kw_only(), "map"_a = true, "threads"_a = 0,
           "ignore_header"_a = false)
      .def_prop_ro("path", [](const File& self) { return FsPath{self.path()}; })
      .def_prop_ro("format",
                   [](const File& self) {
                     return self.format() == FileFormat::kDsckpt ? "dsckpt" : "safetensors";
                   })
      .def_prop_ro("format_version", &File::format_version)
      .def_prop_ro("hash_id", &File::hash_id)
      .def_prop_ro("verifiable", &File::verifiable)
      .def_prop_ro("file_bytes", &File::file_bytes)
      .def("tensors", &Tensors)
      .def("aliases", &Aliases)
      .def("objects", &Objects)
      .def("find_tensor", &FindTensor, "name"_a)
      .def(
          "pieces",
          [](const File& self, uint32_t ordinal) {
            return self.Pieces(self.tensor(Checked(self, ordinal)));
          },
          "ordinal"_a)
      .def("digest", &Digest, "ordinal"_a)
      .def("object_digest", &ObjectDigest, "ordinal"_a)
      .def("digest_of", &DigestOf, "name"_a, nb::kw_only(), "compute"_a = false)
      .def("statistics", &Statistics, "name"_a)
      .def_prop_ro("content_digest", [](const File& self) { return ToHex(self.ContentDigest()); })
      .def("vendor",
           [](const File& self) {
             nb::dict entries;
             for (const auto& [name, data] : self.Vendor()) {
               entries[ToStr(name)] = nb::bytes(data.data(), data.size());
             }
             return entries;
           })
      .def("view", &View, "name"_a)
      .def("read_slice", &ReadSlice, "name"_a, "box"_a, "out"_a)
      .def("load", &Load, "requests"_a, nb::kw_only(), "verify"_a = true)
      .def("read_object", &ReadObject, "name"_a)
      .def("has_tree", [](const File& self) { return self.tree().has_value(); })
      .def("rank_own", &RankOwnNames)
      .def(
          "is_rank_own",
          [](const File& self, const std::string& name) { return self.IsRankOwn(name); }, "name"_a)
      .def("build", &Build, "tensors"_a, "make_object"_a, "make_tagged"_a, nb::kw_only(),
           "shared_only"_a = false)
      .def("attributes", &Attributes)
      .def("metadata", &Metadata);
}

}  // namespace dsckpt::python
