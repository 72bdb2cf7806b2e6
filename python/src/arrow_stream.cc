#include "python/src/arrow_stream.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/limits.h"

namespace dsckpt::python {

// Laid out as https://arrow.apache.org/docs/format/CDataInterface.html and CStreamInterface.html
// say. Whoever has a structure may move it elsewhere and set `release` in the old place to null.
extern "C" {

struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};

struct ArrowArrayStream {
  int (*get_schema)(ArrowArrayStream*, ArrowSchema* out);
  int (*get_next)(ArrowArrayStream*, ArrowArray* out);
  const char* (*get_last_error)(ArrowArrayStream*);
  void (*release)(ArrowArrayStream*);
  void* private_data;
};

}  // extern "C"

namespace {

namespace nb = nanobind;

constexpr int64_t kNullable = 2;
/// A multiple of 64, so that bitmaps and numbers of a batch are aligned as those of the table; and
/// few enough that offsets of texts are of 32 bits.
constexpr uint64_t kBatchRows = 1 << 14;
static_assert(kBatchRows * kMaxNameBytes < INT32_MAX);

/// What a structure points to, and those below it, unless they have been moved away.
template <typename Structure>
struct Owned {
  std::shared_ptr<const Table> table;
  std::string format, name;           // Of schemas.
  std::vector<const void*> buffers;   // Of arrays.
  std::vector<int32_t> text_offsets;  // Of arrays of texts.
  std::vector<Structure> children;
  std::vector<Structure*> child_pointers;
};

template <typename Structure>
void Release(Structure* structure) {
  auto* owned = static_cast<Owned<Structure>*>(structure->private_data);
  for (Structure& child : owned->children) {
    if (child.release != nullptr) child.release(&child);
  }
  delete owned;
  structure->release = nullptr;
}

/// Hands `owned` over to a structure.
template <typename Structure>
void Give(std::unique_ptr<Owned<Structure>> owned, Structure& structure) {
  for (Structure& child : owned->children) owned->child_pointers.push_back(&child);
  structure.n_children = static_cast<int64_t>(owned->children.size());
  structure.children = owned->child_pointers.data();
  structure.dictionary = nullptr;
  structure.release = &Release<Structure>;
  structure.private_data = owned.release();
}

ArrowSchema SchemaOf(std::string format, std::string name, int64_t flags,
                     std::vector<ArrowSchema> children) {
  auto owned = std::make_unique<Owned<ArrowSchema>>();
  owned->format = std::move(format);
  owned->name = std::move(name);
  owned->children = std::move(children);
  ArrowSchema schema = {};
  schema.format = owned->format.c_str();
  schema.name = owned->name.c_str();
  schema.flags = flags;
  Give(std::move(owned), schema);
  return schema;
}

ArrowSchema SchemaOf(const Table& table) {
  std::vector<ArrowSchema> columns;
  for (const TableColumn& column : table.columns) {
    columns.push_back(
        SchemaOf(std::string(1, static_cast<char>(column.type)), column.name, kNullable, {}));
  }
  return SchemaOf("+s", "", 0, std::move(columns));
}

uint64_t CountMissing(const TableColumn& column, uint64_t begin, uint64_t rows) {
  if (column.valid.empty()) return 0;
  uint64_t missing = 0;
  for (uint64_t row = begin; row < begin + rows; ++row) missing += !column.has(row);
  return missing;
}

/// Rows of a column. `begin` is a multiple of kBatchRows.
ArrowArray ArrayOf(const std::shared_ptr<const Table>& table, const TableColumn& column,
                   uint64_t begin, uint64_t rows) {
  auto owned = std::make_unique<Owned<ArrowArray>>();
  owned->table = table;
  ArrowArray array = {};
  array.length = static_cast<int64_t>(rows);
  array.null_count = static_cast<int64_t>(CountMissing(column, begin, rows));
  owned->buffers.push_back(column.valid.empty() ? nullptr : column.valid.data() + begin / 8);
  if (column.type == ColumnType::kText) {
    const int64_t first = column.offsets[begin];
    for (uint64_t row = begin; row <= begin + rows; ++row) {
      owned->text_offsets.push_back(static_cast<int32_t>(column.offsets[row] - first));
    }
    owned->buffers.push_back(owned->text_offsets.data());
    owned->buffers.push_back(column.values.data() + first);
  } else {
    owned->buffers.push_back(column.values.data() + begin * column.width());
  }
  array.n_buffers = static_cast<int64_t>(owned->buffers.size());
  array.buffers = owned->buffers.data();
  Give(std::move(owned), array);
  return array;
}

ArrowArray BatchOf(const std::shared_ptr<const Table>& table, uint64_t begin, uint64_t rows) {
  auto owned = std::make_unique<Owned<ArrowArray>>();
  for (const TableColumn& column : table->columns) {
    owned->children.push_back(ArrayOf(table, column, begin, rows));
  }
  owned->buffers.push_back(nullptr);
  ArrowArray array = {};
  array.length = static_cast<int64_t>(rows);
  array.n_buffers = 1;
  array.buffers = owned->buffers.data();
  Give(std::move(owned), array);
  return array;
}

/// How far a stream is.
struct StreamState {
  std::shared_ptr<const Table> table;
  uint64_t next = 0;
};

int GetSchema(ArrowArrayStream* stream, ArrowSchema* out) {
  *out = SchemaOf(*static_cast<StreamState*>(stream->private_data)->table);
  return 0;
}

int GetNext(ArrowArrayStream* stream, ArrowArray* out) {
  auto* state = static_cast<StreamState*>(stream->private_data);
  *out = {};
  if (state->next == state->table->rows) return 0;
  const uint64_t rows = std::min(kBatchRows, state->table->rows - state->next);
  *out = BatchOf(state->table, state->next, rows);
  state->next += rows;
  return 0;
}

const char* GetLastError(ArrowArrayStream*) { return nullptr; }

void ReleaseStream(ArrowArrayStream* stream) {
  delete static_cast<StreamState*>(stream->private_data);
  stream->release = nullptr;
}

/// A capsule whose structure is released with it, unless its consumer has moved it.
template <typename Structure>
nb::object CapsuleOf(Structure structure, const char* name) {
  auto* held = new Structure(structure);
  PyObject* capsule = PyCapsule_New(held, name, [](PyObject* self) {
    auto* left = static_cast<Structure*>(PyCapsule_GetPointer(self, PyCapsule_GetName(self)));
    if (left->release != nullptr) left->release(left);
    delete left;
  });
  if (capsule == nullptr) throw nb::python_error();
  return nb::steal(capsule);
}

}  // namespace

nb::object ArrowSchemaCapsule(const std::shared_ptr<const Table>& table) {
  return CapsuleOf(SchemaOf(*table), "arrow_schema");
}

nb::object ArrowStreamCapsule(const std::shared_ptr<const Table>& table) {
  ArrowArrayStream stream = {};
  stream.get_schema = &GetSchema;
  stream.get_next = &GetNext;
  stream.get_last_error = &GetLastError;
  stream.release = &ReleaseStream;
  stream.private_data = new StreamState{table};
  return CapsuleOf(stream, "arrow_array_stream");
}

}  // namespace dsckpt::python
