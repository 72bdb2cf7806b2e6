#include "tests/support/mutants.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/verify.h"
#include "spec/conformance/patch.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

// Files with one thing of their index or manifest changed and all sums repaired, opened and read as
// files: refused, found by verification, or of the values that they had. The tests tagged [.slow]
// try every mutant, the others some of each column.

namespace dsckpt::conformance {
namespace {

namespace fs = std::filesystem;

const std::string kValid = std::string(DSCKPT_SOURCE_DIR) + "/spec/conformance/valid/";

void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

using Values = std::map<std::string, std::vector<std::byte>>;

/// Every logical tensor, through all shards; the first error.
Result<Values> ReadCheckpoint(const std::string& path) {
  CheckpointOptions options;
  options.retry = std::chrono::milliseconds(0);
  options.file.map = false;
  DSCKPT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(path, options));
  Values values;
  for (uint32_t i = 0; i < checkpoint.shard_count(); ++i) {
    DSCKPT_RETURN_IF_ERROR(checkpoint.OpenShard(i).status());
  }
  for (uint32_t i = 0; i < checkpoint.tensor_count(); ++i) {
    DSCKPT_RETURN_IF_ERROR(checkpoint.CheckCoverage(i));
    DSCKPT_RETURN_IF_ERROR(checkpoint.CompareCopies(i));
    const LogicalTensorInfo info = checkpoint.tensor(i);
    std::vector<std::byte> bytes(info.bytes);
    DSCKPT_RETURN_IF_ERROR(checkpoint.ReadBytes(i, 0, bytes, true));
    values[std::string(info.name)] = std::move(bytes);
  }
  return values;
}

void TryManifests(size_t stride, size_t least) {
  const TempDir dir;
  for (const auto& entry : fs::directory_iterator(kValid + "sharded")) {
    fs::copy(entry.path(), dir.path());
  }
  const std::string path = dir / "dsckpt.manifest";
  const std::string valid = ReadWholeFile(path);
  const Result<Values> expected = ReadCheckpoint(dir.path());
  REQUIRE(expected.status().ToString() == "Ok");
  format::ManifestColumns columns;
  (void)WithManifest(valid, [&](format::ManifestColumns& all) { columns = all; });
  const size_t count = mutants::ForEach(
      columns, stride, [&](const std::string& name, const format::ManifestColumns& mutant) {
        WriteBytes(path, WithManifest(valid, [&](format::ManifestColumns& all) { all = mutant; }));
        const Result<Values> values = ReadCheckpoint(dir.path());
        if (!values.ok()) return;
        INFO(name);
        // Refused by name, or no other value, in any column.
        REQUIRE(*values == *expected);
        if (ReadWholeFile(path) == valid) return;
        const std::string column = name.substr(0, name.find(' '));
        CHECK((column == "attempt" || column == "ranks" || column == "shards.rank"));
      });
  CHECK(count >= least);
}

/// Tensors of a shard by ordinal; those that this release cannot read are left out.
std::map<uint32_t, std::vector<std::byte>> TensorsOf(const File& file) {
  std::map<uint32_t, std::vector<std::byte>> tensors;
  for (uint32_t i = 0; i < file.tensor_count(); ++i) {
    const Result<Tensor> view = file.View(file.tensor(i).name);
    if (view.ok()) tensors[i] = {view->bytes().begin(), view->bytes().end()};
  }
  return tensors;
}

void TryIndexes(const std::string& vector, size_t stride, size_t least) {
  const TempDir dir;
  const std::string valid = ReadWholeFile(kValid + vector + ".dsckpt");
  const auto expected = TensorsOf(File::Open(kValid + vector + ".dsckpt").value());
  const format::IndexColumns columns = ColumnsOf(TakeApart(valid).value()).value();
  const std::string path = dir / "mutant.dsckpt";
  const size_t count = mutants::ForEach(
      columns, stride, [&](const std::string& name, const format::IndexColumns& mutant) {
        WriteBytes(path, WithColumns(valid, [&](format::IndexColumns& all) { all = mutant; }));
        const Result<File> file = File::Open(path, {.map = false});
        const Result<VerifyReport> report = Verify(path, {.decode = true});
        if (!file.ok()) {
          if (report.ok()) CHECK_FALSE(report->ok);
          return;
        }
        INFO(name);
        if (const auto& attributes = file->attributes()) (void)attributes->size();
        const auto tensors = TensorsOf(*file);
        if (!report.ok() || !report->ok) return;
        for (const auto& [ordinal, bytes] : tensors) {
          const auto before = expected.find(ordinal);
          if (before != expected.end()) CHECK(bytes == before->second);
        }
      });
  CHECK(count >= least);
}

}  // namespace

TEST_CASE("manifests with one thing changed never give another value") { TryManifests(23, 80); }
TEST_CASE("indexes with one thing changed never give another value") {
  TryIndexes("mixed", 41, 60);
  TryIndexes("pieces", 41, 60);
}
TEST_CASE("all manifests with one thing changed", "[.slow]") { TryManifests(1, 2000); }
TEST_CASE("all indexes with one thing changed", "[.slow]") {
  for (const char* const vector : {"mixed", "pieces", "aliases", "tree", "example"}) {
    TryIndexes(vector, 1, 1000);
  }
}

}  // namespace dsckpt::conformance
