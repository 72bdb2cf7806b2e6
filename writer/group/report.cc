#include "writer/group/report.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/little_endian.h"
#include "format/checksum.h"
#include "format/names.h"
#include "format/rank_own.h"
#include "io/input_file.h"
#include "run/shard_index.h"

namespace dsckpt {
namespace {

// Ranks of one group run one release: the encoding is nobody else's business and has no version.
// u64 each, then the texts and the manifest.
enum Field : size_t {
  kCode,
  kErrno,
  kOffset,
  kStep,
  kFlags,
  kMessage,
  kPath,
  kName,
  kManifest,
  kContents
};
constexpr size_t kFields = kContents + 1;
constexpr size_t kTexts = kFields - kMessage;
constexpr size_t kWord = sizeof(uint64_t);
constexpr uint64_t kReplace = 1, kInPlace = 2;

/// u64 each: for every shard the number of tensors, then hash and size of each.
std::string EncodeContents(const std::vector<std::vector<StoredContent>>& contents) {
  std::string out;
  const auto add = [&out](uint64_t value) {
    std::byte word[kWord];
    StoreLittleEndian(word, value);
    out.append(reinterpret_cast<const char*>(word), kWord);
  };
  for (const auto& shard : contents) {
    add(shard.size());
    for (const StoredContent& content : shard) {
      add(content.hash.low);
      add(content.hash.high);
      add(content.raw_bytes);
    }
  }
  return out;
}

bool DecodeContents(std::span<const std::byte> bytes,
                    std::vector<std::vector<StoredContent>>& contents) {
  const auto take = [&bytes] {
    const auto value = LoadLittleEndian<uint64_t>(bytes.data());
    bytes = bytes.subspan(kWord);
    return value;
  };
  while (!bytes.empty()) {
    if (bytes.size() < kWord) return false;
    const uint64_t tensors = take();
    if (tensors > bytes.size() / (3 * kWord)) return false;
    auto& shard = contents.emplace_back(tensors);
    for (StoredContent& content : shard) {
      content.hash.low = take();
      content.hash.high = take();
      content.raw_bytes = take();
    }
  }
  return true;
}

std::vector<StoredContent> ContentsOf(const format::IndexView& index) {
  std::vector<StoredContent> contents(index.tensor_names.size());
  for (uint32_t i = 0; i < contents.size(); ++i) {
    // Of the raw bytes, however they are encoded and whatever shape they are stored in.
    contents[i] = {format::HashChunk(std::as_bytes(format::TensorSums(index, i))),
                   index.tensors.raw_bytes[i]};
  }
  return contents;
}

/// Tensors that are a rank's own carry that rank in their logical name; in shards that hold some,
/// no other name begins so.
Status CheckOwner(const format::IndexView& index, int rank) {
  if (index.rank_own.size() == 0) return {};
  const auto refuse = [rank](std::string_view name) {
    return Status(StatusCode::kInvalidArgument,
                  "'" + Printable(name) + "' is declared to be another rank's own, but rank " +
                      std::to_string(rank) + " saves it: RankOwn() takes the coordinator's rank");
  };
  const std::string own = RankOwnName(static_cast<uint32_t>(rank), "");
  const format::NameView& names = index.pieces.logical_names;
  for (uint32_t i = 0; i < names.size(); ++i) {
    if (IsBelowRanks(names[i]) && !names[i].starts_with(own)) return refuse(names[i]);
  }
  if (index.rank != static_cast<uint32_t>(rank)) return refuse(index.rank_own[0]);
  return {};
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
  const std::string contents = EncodeContents(report.contents);
  const std::string_view texts[kTexts] = {report.status.message(), report.status.path(),
                                          report.name, manifest, contents};
  std::vector<std::byte> bytes(sizeof fields);
  for (size_t i = 0; i < std::size(texts); ++i) {
    fields[kMessage + i] = texts[i].size();
    const auto text = std::as_bytes(std::span(texts[i]));
    bytes.insert(bytes.end(), text.begin(), text.end());
  }
  for (size_t i = 0; i < kFields; ++i) {
    StoreLittleEndian(bytes.data() + i * sizeof(uint64_t), fields[i]);
  }
  return bytes;
}

Result<Report> DecodeReport(std::span<const std::byte> bytes) {
  const Status corrupt(StatusCode::kCorrupt, "a rank's report is damaged");
  uint64_t fields[kFields];
  if (bytes.size() < sizeof fields) return corrupt;
  for (size_t i = 0; i < kFields; ++i) {
    fields[i] = LoadLittleEndian<uint64_t>(bytes.data() + i * sizeof(uint64_t));
  }
  bytes = bytes.subspan(sizeof fields);
  std::span<const std::byte> parts[kTexts];
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
  if (!DecodeContents(parts[4], report.contents)) return corrupt;
  return report;
}

Result<ShardSummary> SummaryOfFile(const std::string& path, std::string_view name, int rank) {
  DSCKPT_ASSIGN_OR_RETURN(const auto input, io::InputFile::Open(path));
  DSCKPT_ASSIGN_OR_RETURN(const run::FileEnds ends, run::ReadEnds(*input));
  DSCKPT_ASSIGN_OR_RETURN(const format::Classified what,
                          format::Classify(ends.head, ends.tail, input->size()));
  const format::Footer& footer = what.footer;
  auto stored = run::ReadShardIndex(*input, footer);
  if (!stored.ok()) {
    return Status(stored.status().code(),
                  "the shard does not read back as it was written: " + stored.status().message())
        .WithErrno(stored.status().error_number())
        .WithPath(path);
  }
  const format::IndexView& index = stored->view;
  DSCKPT_RETURN_IF_ERROR(CheckOwner(index, rank));
  ShardSummary summary{std::string(name), {}, ContentsOf(index)};
  DSCKPT_ASSIGN_OR_RETURN(
      summary.manifest,
      format::ManifestOfShard({name, static_cast<uint32_t>(rank), footer.file_bytes,
                               footer.index_bytes, footer.index_xxh3_64},
                              index));
  return summary;
}

Result<RankSummary> Merge(std::vector<ShardSummary> shards) {
  std::vector<format::ManifestView> views;
  for (const ShardSummary& shard : shards) views.push_back(ViewOf(shard.manifest));
  RankSummary out;
  DSCKPT_ASSIGN_OR_RETURN(out.manifest, format::MergeManifests(views));
  // A manifest orders the shards of one rank by name.
  std::sort(shards.begin(), shards.end(),
            [](const ShardSummary& a, const ShardSummary& b) { return a.name < b.name; });
  for (ShardSummary& shard : shards) out.contents.push_back(std::move(shard.contents));
  return out;
}

}  // namespace dsckpt
