#include "tools/arrow_writer.h"

#include <string>
#include <utility>

#include "arrow_generated.h"

namespace dsckpt::tools {
namespace {

namespace fb = flatbuffers;

constexpr std::string_view kMagic = "ARROW1";
constexpr int16_t kVersion = 4, kDoublePrecision = 2;
constexpr uint32_t kContinuation = 0xFFFFFFFF;
/// Every message and every buffer begins at a multiple of it.
constexpr uint64_t kAlignment = 8;

uint64_t Padded(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

template <typename Number>
std::string_view BytesOf(const Number& number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

std::string_view BytesOf(const fb::FlatBufferBuilder& builder) {
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

using FieldOffset = fb::Offset<arrow::Field>;

FieldOffset IntegerField(fb::FlatBufferBuilder& builder, const std::string& name, bool nullable,
                         int bits, bool is_signed) {
  const auto type = arrow::CreateInt(builder, bits, is_signed).Union();
  const auto children = builder.CreateVector(std::vector<FieldOffset>());
  return arrow::CreateField(builder, builder.CreateString(name), nullable, arrow::Type::Int, type,
                            0, children);
}

FieldOffset FieldOf(fb::FlatBufferBuilder& builder, const CellColumn& column) {
  arrow::Type kind = arrow::Type::Utf8;
  fb::Offset<void> type;
  std::vector<FieldOffset> elements;
  switch (column.type) {
    case CellType::kUint32:
    case CellType::kInt32:
      return IntegerField(builder, column.name, true, 32, column.type == CellType::kInt32);
    case CellType::kUint64:
    case CellType::kInt64:
      return IntegerField(builder, column.name, true, 64, column.type == CellType::kInt64);
    case CellType::kText:
      type = arrow::CreateUtf8(builder).Union();
      break;
    case CellType::kDouble:
      kind = arrow::Type::FloatingPoint;
      type = arrow::CreateFloatingPoint(builder, kDoublePrecision).Union();
      break;
    case CellType::kShape:
      kind = arrow::Type::List;
      type = arrow::CreateList(builder).Union();
      elements.push_back(IntegerField(builder, "item", false, 64, true));
      break;
  }
  const auto children = builder.CreateVector(elements);
  return arrow::CreateField(builder, builder.CreateString(column.name), true, kind, type, 0,
                            children);
}

fb::Offset<arrow::Schema> SchemaOf(fb::FlatBufferBuilder& builder,
                                   const std::vector<CellColumn>& columns) {
  std::vector<FieldOffset> fields;
  for (const CellColumn& column : columns) fields.push_back(FieldOf(builder, column));
  return arrow::CreateSchema(builder, 0, builder.CreateVector(fields));
}

void FinishMessage(fb::FlatBufferBuilder& builder, arrow::MessageHeader kind,
                   fb::Offset<void> header, uint64_t body_bytes) {
  builder.Finish(
      arrow::CreateMessage(builder, kVersion, kind, header, static_cast<int64_t>(body_bytes)));
}

}  // namespace

ArrowWriter::ArrowWriter(std::vector<CellColumn> columns, Sink sink)
    : columns_(std::move(columns)), sink_(std::move(sink)) {
  for (const CellColumn& column : columns_) values_.emplace_back(column.type);
  Write(kMagic);
  Pad();
  WriteSchema();
}

void ArrowWriter::Write(std::string_view bytes) {
  sink_(bytes);
  position_ += bytes.size();
}

void ArrowWriter::Pad() {
  static constexpr char kZeros[kAlignment] = {};
  Write({kZeros, Padded(position_) - position_});
}

uint64_t ArrowWriter::WriteMetadata(std::string_view message) {
  const uint64_t begin = position_;
  Write(BytesOf(kContinuation));
  Write(BytesOf(static_cast<int32_t>(Padded(message.size()))));
  Write(message);
  Pad();
  return position_ - begin;
}

void ArrowWriter::WriteSchema() {
  fb::FlatBufferBuilder builder;
  FinishMessage(builder, arrow::MessageHeader::Schema, SchemaOf(builder, columns_).Union(), 0);
  WriteMetadata(BytesOf(builder));
}

void ArrowWriter::Add(std::span<const Cell> row) {
  for (size_t i = 0; i < row.size(); ++i) {
    const uint64_t before = values_[i].bytes();
    values_[i].Add(row[i]);
    bytes_ += values_[i].bytes() - before;
  }
  ++rows_;
  if (rows_ == kBatchRows || bytes_ >= kBatchBytes) WriteBatch();
}

void ArrowWriter::WriteBatch() {
  std::vector<arrow::FieldNode> nodes;
  std::vector<arrow::Buffer> buffers;
  uint64_t body_bytes = 0;
  for (const ArrowColumn& column : values_) {
    for (const ArrowColumn::Array& array : column.Arrays()) {
      nodes.emplace_back(static_cast<int64_t>(array.length), static_cast<int64_t>(array.nulls));
    }
    for (const std::string_view bytes : column.Buffers()) {
      buffers.emplace_back(static_cast<int64_t>(body_bytes), static_cast<int64_t>(bytes.size()));
      body_bytes += Padded(bytes.size());
    }
  }
  fb::FlatBufferBuilder builder;
  const auto batch = arrow::CreateRecordBatch(builder, static_cast<int64_t>(rows_),
                                              builder.CreateVectorOfStructs(nodes),
                                              builder.CreateVectorOfStructs(buffers));
  FinishMessage(builder, arrow::MessageHeader::RecordBatch, batch.Union(), body_bytes);
  const uint64_t offset = position_;
  batches_.push_back({offset, WriteMetadata(BytesOf(builder)), body_bytes});
  for (ArrowColumn& column : values_) {
    for (const std::string_view bytes : column.Buffers()) {
      Write(bytes);
      Pad();
    }
    column.Clear();
  }
  rows_ = bytes_ = 0;
}

void ArrowWriter::Finish() {
  if (rows_ > 0) WriteBatch();
  Write(BytesOf(kContinuation));
  Write(BytesOf(int32_t{0}));
  fb::FlatBufferBuilder builder;
  const auto schema = SchemaOf(builder, columns_);
  std::vector<arrow::Block> blocks;
  for (const Batch& batch : batches_) {
    blocks.emplace_back(static_cast<int64_t>(batch.offset),
                        static_cast<int32_t>(batch.metadata_bytes),
                        static_cast<int64_t>(batch.body_bytes));
  }
  const auto none = builder.CreateVectorOfStructs(std::vector<arrow::Block>());
  builder.Finish(
      arrow::CreateFooter(builder, kVersion, schema, none, builder.CreateVectorOfStructs(blocks)));
  Write(BytesOf(builder));
  Write(BytesOf(static_cast<int32_t>(builder.GetSize())));
  Write(kMagic);
}

}  // namespace dsckpt::tools
