#ifndef DSCKPT_TOOLS_ARROW_WRITER_H_
#define DSCKPT_TOOLS_ARROW_WRITER_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "tools/arrow_column.h"
#include "tools/cell.h"

namespace dsckpt::tools {

/// Writes rows as a file of Apache Arrow's IPC format. The bytes depend on the columns and rows
/// alone. It holds one record batch at a time.
class ArrowWriter {
 public:
  /// Receives the file from its beginning, piece by piece.
  using Sink = std::function<void(std::string_view bytes)>;
  /// So many rows are a record batch at most, and so many bytes, give or take a row.
  static constexpr uint64_t kBatchRows = 1 << 16, kBatchBytes = 64 << 20;

  ArrowWriter(std::vector<CellColumn> columns, Sink sink);

  /// REQUIRES: a cell for each column, of its type or missing.
  void Add(std::span<const Cell> row);
  /// Writes what is left. Once, and nothing after it.
  void Finish();

 private:
  /// Where a record batch stands.
  struct Batch {
    uint64_t offset;
    uint64_t metadata_bytes, body_bytes;
  };

  void Write(std::string_view bytes);
  void Pad();
  uint64_t WriteMetadata(std::string_view message);
  void WriteSchema();
  void WriteBatch();

  std::vector<CellColumn> columns_;
  Sink sink_;
  std::vector<ArrowColumn> values_;
  uint64_t rows_ = 0, bytes_ = 0;  // Of the present batch.
  uint64_t position_ = 0;
  std::vector<Batch> batches_;
};

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_ARROW_WRITER_H_
