#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/src/bind.h"
#include "python/src/status.h"
#include "python/src/walker.h"

namespace dsckpt::python {
namespace {

using namespace nb::literals;
using Pair = std::pair<int64_t, int64_t>;

Encoding ToEncoding(const std::string& name) {
  for (const Encoding encoding : {Encoding::kRaw, Encoding::kZstd, Encoding::kBytePlaneZstd}) {
    if (name == EncodingName(encoding)) return encoding;
  }
  ThrowInvalid("encoding is '" + name + "': give one of 'raw', 'zstd', 'byteplane-zstd'");
}

void InitWalker(Walker* self, nb::dict state, nb::object classify, const nb::tuple& tensor_types,
                nb::object attributes, nb::object tensor_capture, std::optional<int> host_capture,
                nb::object owner_of, nb::object stream_of, const std::string& encoding,
                std::optional<uint32_t> rank) {
  WalkerOptions options{.classify = std::move(classify),
                        .tensor_types = {},
                        .attributes = std::move(attributes),
                        .tensor_capture = std::move(tensor_capture),
                        .host_capture = host_capture,
                        .owner_of = std::move(owner_of),
                        .stream_of = std::move(stream_of),
                        .encoding = ToEncoding(encoding),
                        .rank = rank};
  for (const nb::handle type : tensor_types) {
    options.tensor_types.push_back(reinterpret_cast<PyTypeObject*>(type.ptr()));
  }
  new (self) Walker(std::move(state), std::move(options));
}

void InitSpec(TensorSpec* self, uintptr_t address, const std::string& dtype,
              std::vector<int64_t> shape, std::optional<std::vector<int64_t>> strides, int device,
              std::optional<int> capture, nb::object owner, std::string tag,
              std::vector<OwnedPiece> pieces, nb::object source) {
  const auto info = FindDType(dtype);
  if (!info) throw nb::value_error(("unknown dtype '" + dtype + "'").c_str());
  new (self) TensorSpec{.address = address,
                        .dtype = info->code,
                        .shape = std::move(shape),
                        .strides = std::move(strides),
                        .device = device,
                        .capture = capture,
                        .owner = std::move(owner),
                        .tag = std::move(tag),
                        .pieces = std::move(pieces),
                        .source = std::move(source)};
}

void InitPiece(OwnedPiece* self, std::string logical_name, std::vector<int64_t> logical_shape,
               const std::optional<std::vector<Pair>>& box, std::optional<Pair> flat,
               uint64_t element_offset, uint32_t replica_group) {
  if (box.has_value() == flat.has_value()) {
    throw nb::value_error("a piece has either a box or a flat range");
  }
  OwnedPiece piece{.logical_name = std::move(logical_name),
                   .logical_shape = std::move(logical_shape),
                   .element_offset = element_offset,
                   .replica_group = replica_group};
  if (box) {
    for (const auto& [begin, end] : *box) piece.box.push_back({begin, end});
  } else {
    piece.form = Piece::Form::kFlat;
    piece.flat = {flat->first, flat->second};
  }
  new (self) OwnedPiece(std::move(piece));
}

std::optional<std::vector<Pair>> BoxOf(const OwnedPiece& piece) {
  if (piece.form != Piece::Form::kBox) return std::nullopt;
  std::vector<Pair> box;
  for (const Range& range : piece.box) box.emplace_back(range.begin, range.end);
  return box;
}

std::optional<Pair> FlatOf(const OwnedPiece& piece) {
  if (piece.form != Piece::Form::kFlat) return std::nullopt;
  return Pair(piece.flat.begin, piece.flat.end);
}

}  // namespace

void BindWalker(nb::module_& module) {
  module.def(
      "plain_keys", [](const nb::dict& dict) { return AllKeysFit(dict.ptr()); }, "dict"_a);
  nb::class_<OwnedPiece>(module, "Piece")
      .def("__init__", &InitPiece, "logical_name"_a, "logical_shape"_a, nb::kw_only(),
           "box"_a = nb::none(), "flat"_a = nb::none(), "element_offset"_a = 0,
           "replica_group"_a = 0)
      .def_ro("logical_name", &OwnedPiece::logical_name)
      .def_ro("logical_shape", &OwnedPiece::logical_shape)
      .def_prop_ro("box", &BoxOf)
      .def_prop_ro("flat", &FlatOf)
      .def_ro("element_offset", &OwnedPiece::element_offset)
      .def_ro("replica_group", &OwnedPiece::replica_group);
  nb::class_<Extents>(module, "Extents")
      .def(nb::init<const nb::tuple&>(), "tensor_types"_a)
      .def("add", &Extents::Add, "tensors"_a)
      .def("add_range", &Extents::AddRange, "begin"_a, "end"_a)
      .def("holds", &Extents::Holds, "address"_a, "bytes"_a);
  nb::class_<TensorSpec>(module, "TensorSpec")
      .def("__init__", &InitSpec, "address"_a, "dtype"_a, "shape"_a, "strides"_a = nb::none(),
           nb::kw_only(), "device"_a = kHostMemory, "capture"_a = nb::none(),
           "owner"_a = nb::none(), "tag"_a = "", "pieces"_a = std::vector<OwnedPiece>(),
           "source"_a = nb::none());
  nb::class_<Walker>(module, "Walker")
      .def("__init__", &InitWalker, "state"_a, nb::kw_only(), "classify"_a,
           "tensor_types"_a = nb::tuple(), "attributes"_a = nb::none(), "tensor_capture"_a = 0,
           "host_capture"_a = nb::none(), "owner_of"_a = nb::none(), "stream_of"_a = nb::none(),
           "encoding"_a = "raw", "rank"_a = nb::none())
      .def("on_described", &Walker::OnDescribed, "call"_a)
      .def_prop_ro("lazy", [](const Walker& self) { return self.lazy(); })
      .def_prop_ro("tensor_count", [](const Walker& self) { return self.tensor_count(); });
}

}  // namespace dsckpt::python
