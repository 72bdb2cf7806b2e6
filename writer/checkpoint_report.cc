#include "writer/checkpoint_report.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "format/checksum.h"
#include "format/footer.h"
#include "format/index.h"
#include "format/little_endian.h"
#include "format/shard_match.h"
#include "io/input_file.h"

namespace dsckpt {
namespace {

// Ranks of one group run one release: the encoding is nobody else's business and has no version.
// u64 each, then the texts and the manifest.
enum Field : size_t { kCode, kErrno, kOffset, kStep, kFlags, kMessage, kPath, kName, kManifest };
constexpr size_t kFields = kManifest + 1;
constexpr uint64_t kReplace = 1, kInPlace = 2;

/// Index bytes in memory that ParseIndex can borrow from.
Result<std::vector<std::byte>> ReadIndex(const io::InputFile& input, const format::Footer& footer) {
  std::vector<std::byte> index(footer.index_bytes);
  DSCKPT_RETURN_IF_ERROR(input.ReadAt(footer.index_offset, index));
  if (format::Hash64(index) != footer.index_xxh3_64) {
    return Status(StatusCode::kCorrupt, "the index of '" + input.path() +
                                            "' does not read back as it was written: its checksum "
                                            "differs")
        .WithPath(input.path());
  }
  return index;
}

}  // namespace

std::vector<std::byte> EncodeReport(const Report& report) {
  const std::string_view manifest(reinterpret_cast<const char*>(report.manifest.data()),
                                  report.manifest.size());
  uint64_t fields[kFields] = {};
  fields[kCode] = static_cast<uint64_t>(report.status.code());
  fields[kErrno] = static_cast<uint64_t>(report.status.error_number());
  fields[kOffset] = static_cast<uint64_t>(report.status.offset());
  fields[kStep] = static_cast<uint64_t>(report.step);
  fields[kFlags] = (report.replace ? kReplace : 0) | (report.in_place ? kInPlace : 0);
  const std::string_view texts[] = {report.status.message(), report.status.path(), report.name,
                                    manifest};
  std::vector<std::byte> bytes(sizeof fields);
  for (size_t i = 0; i < std::size(texts); ++i) {
    fields[kMessage + i] = texts[i].size();
    const auto text = std::as_bytes(std::span(texts[i]));
    bytes.insert(bytes.end(), text.begin(), text.end());
  }
  for (size_t i = 0; i < kFields; ++i) {
    format::StoreLittleEndian(bytes.data() + i * sizeof(uint64_t), fields[i]);
  }
  return bytes;
}

Result<Report> DecodeReport(std::span<const std::byte> bytes) {
  const Status corrupt(StatusCode::kCorrupt, "a rank's report is damaged");
  uint64_t fields[kFields];
  if (bytes.size() < sizeof fields) return corrupt;
  for (size_t i = 0; i < kFields; ++i) {
    fields[i] = format::LoadLittleEndian<uint64_t>(bytes.data() + i * sizeof(uint64_t));
  }
  bytes = bytes.subspan(sizeof fields);
  std::span<const std::byte> parts[4];
  for (size_t i = 0; i < std::size(parts); ++i) {
    if (fields[kMessage + i] > bytes.size()) return corrupt;
    parts[i] = bytes.first(fields[kMessage + i]);
    bytes = bytes.subspan(parts[i].size());
  }
  if (!bytes.empty()) return corrupt;
  const auto text = [&](size_t i) {
    return std::string(reinterpret_cast<const char*>(parts[i].data()), parts[i].size());
  };
  Report report;
  if (const auto code = static_cast<StatusCode>(fields[kCode]); code != StatusCode::kOk) {
    report.status = Status(code, text(0))
                        .WithErrno(static_cast<int>(fields[kErrno]))
                        .WithPath(text(1))
                        .WithOffset(fields[kOffset]);  // -1 stays -1.
  }
  report.step = static_cast<int64_t>(fields[kStep]);
  report.name = text(2);
  report.replace = (fields[kFlags] & kReplace) != 0;
  report.in_place = (fields[kFlags] & kInPlace) != 0;
  report.manifest.assign(parts[3].begin(), parts[3].end());
  return report;
}

Result<format::ManifestColumns> ManifestOfFile(const std::string& path, std::string_view name,
                                               int rank, int64_t step) {
  DSCKPT_ASSIGN_OR_RETURN(const auto input, io::InputFile::Open(path));
  const uint64_t size = input->size();
  std::vector<std::byte> head(std::min(size, kPageBytes)), tail(std::min(size, kFooterBytes));
  DSCKPT_RETURN_IF_ERROR(input->ReadAt(0, head));
  DSCKPT_RETURN_IF_ERROR(input->ReadAt(size - tail.size(), tail));
  DSCKPT_ASSIGN_OR_RETURN(const format::Classified what, format::Classify(head, tail, size));
  const format::Footer& footer = what.footer;
  DSCKPT_ASSIGN_OR_RETURN(const auto bytes, ReadIndex(*input, footer));
  DSCKPT_ASSIGN_OR_RETURN(
      const format::IndexView index,
      format::ParseIndex(bytes, {footer.data_begin, footer.tail_begin, footer.index_offset}));
  if (const auto recorded = format::RecordedStep(index); recorded && *recorded != step) {
    return Status(StatusCode::kInvalidArgument, "the shard's attribute 'step' is " +
                                                    std::to_string(*recorded) +
                                                    ", but the checkpoint is saved as step " +
                                                    std::to_string(step) + ": give both the same")
        .WithPath(path);
  }
  return format::ManifestOfShard({name, static_cast<uint32_t>(rank), footer.file_bytes,
                                  footer.index_bytes, footer.index_xxh3_64},
                                 index);
}

Result<format::ManifestColumns> Merge(std::span<const format::ManifestColumns> parts) {
  std::vector<format::ManifestView> views;
  for (const auto& part : parts) views.push_back(ViewOf(part));
  return format::MergeManifests(views);
}

}  // namespace dsckpt
