#include "format/header/listing.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "dsckpt/dtype.h"
#include "format/header/check.h"
#include "format/header/from_index.h"
#include "format/header/header.h"

// What canonical headers have behind their metadata follows from the index byte for byte, so that
// it is compared as text: a million tensors take no parser. Headers of another form, which other
// writers may write, are parsed.

namespace dsckpt::format {
namespace {

constexpr size_t kJsonBegin = 8;

/// The listed tensors of an index as entries of a header.
class Listing {
 public:
  Listing(const IndexView& index, uint64_t data_begin)
      : index_(index), data_begin_(data_begin), listed_(ListedTensors(index)) {}

  size_t size() const { return listed_.size(); }
  std::string_view name(size_t i) const { return index_.tensor_names[listed_[i]]; }
  std::span<const int64_t> shape(size_t i) const { return index_.shape(listed_[i]); }
  DTypeInfo dtype(size_t i) const {
    return *FindDType(DType{index_.dtypes[index_.tensor_dtype[listed_[i]]].code});
  }
  uint64_t begin(size_t i) const { return index_.tensors.offset[listed_[i]] - data_begin_; }
  uint64_t end(size_t i) const { return begin(i) + index_.tensors.raw_bytes[listed_[i]]; }

 private:
  const IndexView& index_;
  uint64_t data_begin_;
  std::vector<uint32_t> listed_;
};

/// Takes what stands at the begin of a text.
class Scanner {
 public:
  explicit Scanner(std::string_view rest) : rest_(rest) {}

  std::string_view rest() const { return rest_; }

  bool Take(std::string_view expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }

  /// What stands between the quotes of a string. Nothing where it holds an escape of more than one
  /// character, so that equal texts are equal strings.
  std::optional<std::string_view> TakeString() {
    if (!Take("\"")) return std::nullopt;
    for (size_t i = 0; i < rest_.size(); ++i) {
      if (rest_[i] == '"') {
        const std::string_view text = rest_.substr(0, i);
        rest_.remove_prefix(i + 1);
        return text;
      }
      if (static_cast<uint8_t>(rest_[i]) < 0x20) return std::nullopt;
      if (rest_[i] != '\\') continue;
      ++i;
      if (i == rest_.size() || std::string_view("\"\\bfnrt").find(rest_[i]) == std::string::npos) {
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

 private:
  std::string_view rest_;
};

/// A canonical `__metadata__`, whose members no text has to be unescaped for to know that none
/// occurs twice.
bool TakeMetadata(Scanner& scan) {
  constexpr std::string_view kFirst[] = {"dsckpt", "dsckpt.bytes", "format"};
  const std::string_view whole = scan.rest();
  if (!scan.Take("{\"__metadata__\":{")) return false;
  std::optional<std::string_view> before;
  for (size_t i = 0;; ++i) {
    const auto key = scan.TakeString();
    if (!key || !scan.Take(":") || !scan.TakeString()) return false;
    if (i < std::size(kFirst)) {
      if (*key != kFirst[i]) return false;
    } else if (std::find(std::begin(kFirst), std::end(kFirst), *key) != std::end(kFirst) ||
               (before && *before >= *key)) {
      return false;
    } else {
      before = key;
    }
    if (scan.Take("}")) break;
    if (!scan.Take(",")) return false;
  }
  return IsValidUtf8(whole.substr(0, whole.size() - scan.rest().size()));
}

/// Whether the header is the one that section 4 gives it from the end of its metadata on, and lists
/// the tensors.
bool IsCanonical(std::string_view json, const Listing& listing, const std::string& tail) {
  Scanner scan(json);
  if (!TakeMetadata(scan) || !scan.Take(",")) return false;
  std::string entry;
  for (size_t i = 0; i < listing.size(); ++i) {
    entry.clear();
    AppendEntry(entry, listing.name(i), listing.dtype(i).name, listing.shape(i), listing.begin(i),
                listing.end(i));
    if (!scan.Take(entry) || !scan.Take(",")) return false;
  }
  return scan.Take(tail) && scan.Take("}") &&
         scan.rest().find_first_not_of(' ') == std::string::npos;
}

Status Differs(std::string_view item, const std::string& expected, const std::string& found) {
  return Status(StatusCode::kMismatch, "the JSON header and the index differ in " +
                                           std::string(item) + ": the index says " + expected +
                                           ", the header " + found)
      .WithOffset(kJsonBegin);
}

std::string EntryText(const DTypeInfo& dtype, std::span<const int64_t> shape, uint64_t begin,
                      uint64_t end) {
  return std::string(dtype.name) + " " + ShapeText(shape) + " at [" + std::to_string(begin) + ", " +
         std::to_string(end) + ") of the data";
}

Status Compare(const Listing& listing, size_t i, const HeaderEntry& entry) {
  const std::string item = "tensor " + Quoted(listing.name(i));
  if (entry.name != listing.name(i)) {
    return Differs(item, "that it is number " + std::to_string(i) + " of the listed ones",
                   "has " + Quoted(entry.name) + " there");
  }
  const auto shape = listing.shape(i);
  if (entry.dtype.code == listing.dtype(i).code && entry.begin == listing.begin(i) &&
      std::equal(shape.begin(), shape.end(), entry.shape.begin(), entry.shape.end())) {
    return {};
  }
  return Differs(item, EntryText(listing.dtype(i), shape, listing.begin(i), listing.end(i)),
                 EntryText(entry.dtype, entry.shape, entry.begin, entry.end));
}

/// Whether the tensors would have room in a header with these members. Aliases among them give way
/// first (spec/format.md, "Headers that would be too long").
bool Fits(const Listing& listing, const IndexView& index, const Metadata& members) {
  Metadata kept;
  for (const auto& member : members) {
    const std::string_view key = member.first;
    const bool alias = !IsReservedMember(key) && index.alias_names.Find(key);
    if (!alias && key != "dsckpt" && key != "dsckpt.bytes") kept.push_back(member);
  }
  HeaderBuilder builder(true, kept);
  for (size_t i = 0; i < listing.size(); ++i) {
    builder.Add(listing.name(i), listing.dtype(i).name, listing.shape(i), listing.begin(i),
                listing.end(i));
  }
  bool lists = false;
  return builder.Finish(&lists).ok() && lists;
}

Status CompareTail(const HeaderEntry* last, uint64_t begin, uint64_t end) {
  const int64_t shape[] = {static_cast<int64_t>(end - begin)};
  const DTypeInfo u8 = *FindDType(DType::kU8);
  if (last != nullptr && last->name == kTailName && last->dtype.code == u8.code &&
      last->begin == begin && last->shape.size() == 1) {
    return {};
  }
  return Differs(kTailName, EntryText(u8, shape, begin, end),
                 last == nullptr ? "nothing"
                                 : "ends with " + Quoted(last->name) + " as " +
                                       EntryText(last->dtype, last->shape, last->begin, last->end));
}

}  // namespace

Status CheckListing(std::string_view region, const IndexView& index, uint64_t tail_begin,
                    uint64_t file_bytes) {
  const std::string_view json = region.substr(kJsonBegin);
  const uint64_t data_begin = region.size();
  const uint64_t tail = tail_begin - data_begin, end = file_bytes - data_begin;
  const Listing listing(index, data_begin);
  if (IsCanonical(json, listing, TailEntry(tail, end))) return {};

  const auto header = ParseHeader(json, end);
  if (!header.ok()) {
    return Status(StatusCode::kMismatch, "the JSON header is not one: " + header.status().message())
        .WithOffset(kJsonBegin);
  }
  const std::vector<HeaderEntry>& entries = header->entries;
  const HeaderEntry* const last = entries.empty() ? nullptr : &entries.back();
  if (entries.size() == 1 && listing.size() != 0 && last->name == kTailName) {
    if (!Fits(listing, index, header->metadata)) return CompareTail(last, 0, end);
    return Differs("its tensors", std::to_string(listing.size()) + ", for which there is room",
                   "none");
  }
  for (size_t i = 0; i < listing.size() && i < entries.size(); ++i) {
    DSCKPT_RETURN_IF_ERROR(Compare(listing, i, entries[i]));
  }
  if (entries.size() <= listing.size() + 1) return CompareTail(last, tail, end);
  return Differs("tensor " + Quoted(entries[listing.size()].name), "nothing", "that there is one");
}

}  // namespace dsckpt::format
