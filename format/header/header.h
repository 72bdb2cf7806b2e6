#ifndef DSCKPT_FORMAT_HEADER_HEADER_H_
#define DSCKPT_FORMAT_HEADER_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsckpt/dtype.h"
#include "dsckpt/status.h"

// The safetensors JSON header: strict reading of any, canonical writing of ours.

namespace dsckpt::format {

using Metadata = std::vector<std::pair<std::string, std::string>>;

/// One entry of a header. Offsets are relative to the data section (after the header), as
/// safetensors has them.
struct HeaderEntry {
  std::string name;
  DTypeInfo dtype;
  std::vector<int64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct Header {
  Metadata metadata;                 // in file order
  std::vector<HeaderEntry> entries;  // by (begin, end, name)
};

/// Parses the JSON text of a header whose data section has `data_bytes` bytes. Accepts what the
/// stock loader 0.8.0 accepts, except where that is ambiguous: duplicate names (also by escape),
/// unknown fields, entries written as arrays. kCorrupt names the tensor and the rule broken;
/// kTruncated / kTrailingBytes when the last entry ends after / before `data_bytes`; kUnsupported
/// names an unknown dtype.
Result<Header> ParseHeader(std::string_view json, uint64_t data_bytes);

/// The metadata of a header that ParseHeader() has accepted, or that a checksum covers: where they
/// stand first, as in every shard, nothing behind them is read.
Result<Metadata> ParseMetadata(std::string_view json, uint64_t data_bytes);

/// Name of the entry that covers the tail of a shard, dtype U8.
inline constexpr std::string_view kTailName = "__dsckpt__";
inline constexpr std::string_view kMetadataName = "__metadata__";
/// How every shard's JSON begins; the version and the file size follow at fixed offsets
/// (spec/format.md, "JSON header").
inline constexpr std::string_view kHeaderMark = "{\"__metadata__\":{\"dsckpt\":\"";
/// Where the version stands in a header region, the 8-byte length included.
inline constexpr size_t kVersionOffset = 8 + kHeaderMark.size();
inline constexpr size_t kVersionBytes = 8;

/// Appends `text` as a JSON string with pinned escapes: \" \\ \b \f \n \r \t, \u00XX (lower-case
/// hex) for other controls; everything else verbatim UTF-8.
void AppendJsonString(std::string& out, std::string_view text);

/// Appends the entry of one tensor in its canonical form, without a comma behind it.
void AppendEntry(std::string& out, std::string_view name, std::string_view dtype,
                 std::span<const int64_t> shape, uint64_t begin, uint64_t end);
/// The entry kTailName in its canonical form; offsets as in HeaderEntry.
std::string TailEntry(uint64_t begin, uint64_t end);

/// Builds a header region, 8-byte length included, padded with spaces. Usage: Add() entries in
/// offset order, then Finish(). The sizes that only the end of a save knows are patched in later,
/// at the same length (PatchSizes).
class HeaderBuilder {
 public:
  /// `shard`: dsckpt members first and a `__dsckpt__` entry last; else plain safetensors, padded
  /// to 8.
  HeaderBuilder(bool shard, const Metadata& metadata);
  void Add(std::string_view name, std::string_view dtype, std::span<const int64_t> shape,
           uint64_t begin, uint64_t end);
  /// The whole region. If the JSON would exceed kMaxHeaderJsonBytes: a shard's region lists
  /// `__dsckpt__` alone, spanning all data (`listed` becomes false); plain safetensors gives
  /// kLimitExceeded.
  Result<std::string> Finish(bool* listed);

 private:
  std::string text_;
  bool shard_;
  size_t first_entry_ = 0;
};

/// Writes file size and the tail entry's numbers into a shard's region made by HeaderBuilder.
/// `tail_begin` and `file_bytes` are file offsets; the region's size is D. When nothing is listed
/// pass tail_begin = D.
void PatchSizes(std::string& region, uint64_t tail_begin, uint64_t file_bytes);

}  // namespace dsckpt::format

#endif  // DSCKPT_FORMAT_HEADER_HEADER_H_
