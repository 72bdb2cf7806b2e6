// --format arrow, read with what the schema generates. python/tests/test_arrow.py reads the same
// files with other programs.

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "arrow_generated.h"
#include "tests/analysis/samples.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/command.h"

namespace {

namespace arrow = dsckpt::arrow;

constexpr size_t kEnd = 10;  // The length of the footer, and the magic.

template <typename Number>
Number NumberAt(std::string_view bytes, size_t offset) {
  REQUIRE(offset + sizeof(Number) <= bytes.size());
  Number number;
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

/// A file whose parts are where its footer says.
struct ArrowFile {
  explicit ArrowFile(std::string all) : bytes(std::move(all)) {
    REQUIRE(bytes.size() > 2 * kEnd);
    REQUIRE(bytes.substr(0, 8) == std::string("ARROW1\0\0", 8));
    REQUIRE(bytes.ends_with("ARROW1"));
    const auto size = static_cast<size_t>(NumberAt<int32_t>(bytes, bytes.size() - kEnd));
    footer_text = bytes.substr(bytes.size() - kEnd - size, size);
    flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(footer_text.data()), size);
    REQUIRE(verifier.VerifyBuffer<arrow::Footer>());
    footer = flatbuffers::GetRoot<arrow::Footer>(footer_text.data());
    REQUIRE(footer->version() == 4);
  }

  /// The record batch of a block, and its body.
  const arrow::RecordBatch* BatchAt(unsigned i, std::string_view& body) const {
    const arrow::Block* block = footer->record_batches()->Get(i);
    const auto offset = static_cast<size_t>(block->offset());
    REQUIRE(offset % 8 == 0);
    REQUIRE(NumberAt<uint32_t>(bytes, offset) == 0xFFFFFFFF);
    REQUIRE(NumberAt<int32_t>(bytes, offset + 4) + 8 == block->metadata_length());
    const auto* message = flatbuffers::GetRoot<arrow::Message>(bytes.data() + offset + 8);
    REQUIRE(message->body_length() == block->body_length());
    body = std::string_view(bytes).substr(offset + static_cast<size_t>(block->metadata_length()),
                                          static_cast<size_t>(block->body_length()));
    return message->header_as_RecordBatch();
  }

  std::string bytes, footer_text;
  const arrow::Footer* footer = nullptr;
};

std::string_view BufferOf(const arrow::RecordBatch* batch, std::string_view body, unsigned i) {
  const arrow::Buffer* buffer = batch->buffers()->Get(i);
  REQUIRE(buffer->offset() % 8 == 0);
  return body.substr(static_cast<size_t>(buffer->offset()), static_cast<size_t>(buffer->length()));
}

SampleTensors TwoTensors() {
  return {{"a", Sample<float>({3, -4})}, {"bc", Sample<float>({std::nanf("")})}};
}

}  // namespace

TEST_CASE("arrow: buffers of texts, counts, numbers and shapes") {
  TempDir dir;
  SampleTensors tensors = TwoTensors();
  SaveSample(dir / "a", tensors);
  const ArrowFile file(
      RunOk({"stats", dir / "a", "--format", "arrow", "--columns", "name,nan,max,shape"}).out);
  REQUIRE(file.footer->schema()->fields()->size() == 4);
  CHECK(file.footer->schema()->fields()->Get(0)->type_type() == arrow::Type::Utf8);
  CHECK(file.footer->schema()->fields()->Get(3)->children()->Get(0)->name()->str() == "item");
  REQUIRE(file.footer->record_batches()->size() == 1);
  std::string_view body;
  const arrow::RecordBatch* batch = file.BatchAt(0, body);
  CHECK(batch->length() == 2);
  REQUIRE(batch->nodes()->size() == 5);
  CHECK(batch->nodes()->Get(2)->null_count() == 1);
  CHECK(batch->nodes()->Get(4)->length() == 2);

  CHECK(BufferOf(batch, body, 0).empty());
  CHECK(NumberAt<int32_t>(BufferOf(batch, body, 1), 8) == 3);
  CHECK(BufferOf(batch, body, 2) == "abc");
  CHECK(NumberAt<uint64_t>(BufferOf(batch, body, 4), 8) == 1);
  CHECK(BufferOf(batch, body, 5) == "\x01");
  CHECK(NumberAt<double>(BufferOf(batch, body, 6), 0) == 3);
  CHECK(NumberAt<int32_t>(BufferOf(batch, body, 8), 4) == 1);
  CHECK(NumberAt<int64_t>(BufferOf(batch, body, 10), 0) == 2);
}

TEST_CASE("arrow: the file and standard output have the same bytes each time") {
  TempDir dir;
  SampleTensors tensors = TwoTensors();
  SaveSample(dir / "a", tensors);
  const std::string out = RunOk({"stats", dir / "a", "--format", "arrow"}).out;
  RunOk({"stats", dir / "a", "-o", dir / "out.arrow", "-j", "1"});
  CHECK(ReadWholeFile(dir / "out.arrow") == out);
  const ArrowFile none(RunOk({"stats", dir / "a", "--format", "arrow", "--limit", "0"}).out);
  CHECK(none.footer->record_batches()->size() == 0);
  CHECK(none.footer->dictionaries() != nullptr);
}

TEST_CASE("arrow: diff and trace write it, and a terminal gets none") {
  TempDir dir;
  SampleTensors tensors = TwoTensors();
  SaveSample(dir / "a", tensors);
  tensors["a"] = Sample<float>({3, 5});
  SaveSample(dir / "b", tensors);
  CHECK(RunTool({"diff", dir / "a", dir / "b", "-o", dir / "d.arrow", "--columns", "name"}).code ==
        1);
  const ArrowFile file(ReadWholeFile(dir / "d.arrow"));
  std::string_view body;
  CHECK(BufferOf(file.BatchAt(0, body), body, 2) == "a");
  const Outcome shown = RunOnTerminal({"stats", dir / "a", "--format", "arrow"}, 80);
  CHECK(shown.code == 2);
  CHECK(Contains(shown.out, "give -o FILE.arrow"));
  RunOk({"trace", dir / "a", dir / "b", "-o", dir / "t.arrow", "--columns", "norm"});
  const ArrowFile traced(ReadWholeFile(dir / "t.arrow"));
  CHECK(BufferOf(traced.BatchAt(0, body), body, 1).size() >= 4 * sizeof(double));
}
