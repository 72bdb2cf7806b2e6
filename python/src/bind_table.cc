// Tables of results, for python/dsckpt/table.py.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "python/src/arrow_stream.h"
#include "python/src/bind.h"
#include "python/src/status.h"
#include "python/src/table.h"
#include "python/src/values.h"

namespace dsckpt::python {
namespace {

using namespace nb::literals;

/// As _native._Column: name, type, optional, values, bitmap, offsets.
using ColumnParts = std::tuple<std::string, std::string, bool, nb::bytes, nb::bytes, nb::bytes>;

template <typename Number>
std::vector<Number> NumbersIn(const nb::bytes& given) {
  std::vector<Number> numbers(given.size() / sizeof(Number));
  if (!numbers.empty()) {
    std::memcpy(numbers.data(), given.c_str(), numbers.size() * sizeof(Number));
  }
  return numbers;
}

TableColumn ColumnOf(const ColumnParts& parts, uint64_t rows) {
  const auto& [name, type, optional, values, valid, offsets] = parts;
  if (type.size() != 1 || std::string_view("iIlLgu").find(type) == std::string_view::npos) {
    ThrowInvalid("column '" + name + "' has the type '" + type + "', which no table has");
  }
  TableColumn column(name, static_cast<ColumnType>(type[0]), optional);
  column.length = rows;
  column.values.assign(values.c_str(), values.size());
  column.valid = NumbersIn<uint8_t>(valid);
  if (column.type == ColumnType::kText) column.offsets = NumbersIn<int64_t>(offsets);
  return column;
}

void InitTable(SharedTable* self, const std::vector<ColumnParts>& columns, uint64_t rows) {
  auto table = std::make_shared<Table>();
  table->rows = rows;
  for (const ColumnParts& parts : columns) table->columns.push_back(ColumnOf(parts, rows));
  Check(table->Check());
  for (TableColumn& column : table->columns) {
    for (uint64_t row = 0; row < rows; ++row) column.missing += !column.has(row);
  }
  new (self) SharedTable{std::move(table)};
}

/// Bytes of a table, which keep it alive.
nb::object ViewOf(const SharedTable& self, const void* data, size_t bytes) {
  auto* held = new std::shared_ptr<const Table>(self.table);
  const nb::capsule owner(
      held, [](void* p) noexcept { delete static_cast<std::shared_ptr<const Table>*>(p); });
  static const uint8_t kNothing = 0;
  const void* from = bytes == 0 ? &kNothing : data;
  const nb::ndarray<nb::memview, const uint8_t, nb::ndim<1>> view(static_cast<const uint8_t*>(from),
                                                                  {bytes}, owner);
  return nb::cast(view);
}

nb::list Columns(const SharedTable& self) {
  nb::list out;
  for (const TableColumn& column : self.table->columns) {
    out.append(nb::make_tuple(
        ToStr(column.name), std::string(1, static_cast<char>(column.type)), column.optional,
        ViewOf(self, column.values.data(), column.values.size()),
        ViewOf(self, column.valid.data(), column.valid.size()),
        ViewOf(self, column.offsets.data(), column.offsets.size() * sizeof(int64_t))));
  }
  return out;
}

SharedTable Combine(const std::vector<SharedTable>& tables, const std::string& key) {
  std::vector<const Table*> given;
  for (const SharedTable& each : tables) given.push_back(each.table.get());
  if (given.empty()) ThrowInvalid("there is no table to combine");
  return {std::make_shared<Table>(Unwrap(CombineTables(given, key)))};
}

}  // namespace

void BindTable(nb::module_& module) {
  nb::class_<SharedTable>(module, "Table")
      .def("__init__", &InitTable, "columns"_a, "rows"_a)
      .def_prop_ro("rows", [](const SharedTable& self) { return self.table->rows; })
      .def("columns", &Columns)
      .def("arrow_schema", [](const SharedTable& self) { return ArrowSchemaCapsule(self.table); })
      .def("arrow_stream", [](const SharedTable& self) { return ArrowStreamCapsule(self.table); });
  module.def("combine_tables", &Combine, "tables"_a, "key"_a);
}

}  // namespace dsckpt::python
