#ifndef DSCKPT_FORMAT_INDEX_RECORDS_H_
#define DSCKPT_FORMAT_INDEX_RECORDS_H_

#include <bit>
#include <cstddef>

#include "format/columns/columns.h"
#include "index_generated.h"

// Columns are copied into and read from the FlatBuffer as whole arrays. That needs the records of
// format/columns/columns.h to have the layout of the schema's structs, and the host its byte order.

namespace dsckpt::format {

static_assert(std::endian::native == std::endian::little,
              "the columns of an index are little-endian in memory");
static_assert(sizeof(Hash128) == sizeof(fbs::Hash128) && offsetof(Hash128, high) == 8);
static_assert(sizeof(DTypeRecord) == sizeof(fbs::DType) && offsetof(DTypeRecord, bits) == 2 &&
              offsetof(DTypeRecord, block_elements) == 4 &&
              offsetof(DTypeRecord, block_bytes) == 8);
static_assert(sizeof(StoredChunk) == sizeof(fbs::StoredChunk) &&
              offsetof(StoredChunk, stored_bytes) == 8 && offsetof(StoredChunk, reserved) == 12);
static_assert(sizeof(NodeRecord) == sizeof(fbs::Node) && offsetof(NodeRecord, key_kind) == 1 &&
              offsetof(NodeRecord, tag) == 2 && offsetof(NodeRecord, children) == 4 &&
              offsetof(NodeRecord, key) == 8 && offsetof(NodeRecord, payload) == 16);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_INDEX_RECORDS_H_
