// Checks the JSON header of a shard against its index.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/limits.h"
#include "format/checksum.h"
#include "format/header/from_index.h"
#include "format/header/header.h"
#include "reader/chunk/stored_item.h"
#include "reader/file/file_impl.h"
#include "reader/file/verify_parts.h"

namespace dsckpt::reader {

namespace {

/// An entry in words, for comparing and for telling.
std::string EntryText(std::string_view dtype, std::span<const int64_t> shape, uint64_t begin,
                      uint64_t end) {
  std::string text(dtype);
  return text.append(" ").append(ShapeText(shape)) + " at [" + std::to_string(begin) + ", " +
         std::to_string(end) + ")";
}

/// Where two texts differ first, and what stands there, for telling.
struct Difference {
  size_t at;
  std::string expected, found;
};
std::optional<Difference> FirstDifference(std::string_view expected, std::string_view found) {
  constexpr size_t kBefore = 20, kShown = 60;
  const auto at = static_cast<size_t>(
      std::mismatch(expected.begin(), expected.end(), found.begin(), found.end()).first -
      expected.begin());
  if (at == expected.size() && at == found.size()) return std::nullopt;
  const size_t from = at < kBefore ? 0 : at - kBefore;
  return Difference{at, std::string(expected.substr(from, kShown)),
                    std::string(found.substr(from, kShown))};
}

/// Says what differs by name where it can, else where the text does.
class HeaderComparison {
 public:
  HeaderComparison(Verification& run, const format::IndexView& index, const format::Header& header)
      : run_(run), footer_(run.footer), index_(index), header_(header), entries_(header.entries) {}

  /// `region` is what `header` was parsed from.
  void Compare(std::string_view region) {
    CompareMember("dsckpt", VersionText());
    CompareMember("dsckpt.bytes", SizeText());
    CompareEntries();
    CompareAliases();
    if (same_) CompareText(region);
  }

 private:
  void CompareEntries() {
    const uint64_t tail_end = footer_.file_bytes - footer_.data_begin;
    // Above safetensors' cap the header lists the tail alone, which then covers all data.
    const bool alone =
        entries_.size() == 1 && entries_[0].name == format::kTailName && entries_[0].begin == 0;
    if (!alone) CompareTensors();
    const uint64_t tail_begin = alone ? 0 : footer_.tail_begin - footer_.data_begin;
    if (entries_.empty() || entries_.back().name != format::kTailName) {
      Note("header", "a last entry '" + std::string(format::kTailName) + "'", "none");
      return;
    }
    const int64_t dims[] = {static_cast<int64_t>(tail_end - tail_begin)};
    CompareEntry(entries_.back(), EntryText("U8", dims, tail_begin, tail_end));
  }

  void Note(std::string_view item, std::string expected, std::string found) {
    same_ = false;
    run_.problems.Add(item, "header-mismatch", 8, std::move(expected), std::move(found));
  }

  std::string VersionText() const {
    std::string text =
        std::to_string(footer_.version_major) + "." + std::to_string(footer_.version_minor);
    text.resize(format::kVersionBytes, ' ');
    return text;
  }

  std::string SizeText() const {
    const std::string digits = std::to_string(footer_.file_bytes);
    return std::string(20 - digits.size(), '0') + digits;
  }

  const std::string* Member(std::string_view key) const {
    const auto member = std::find_if(header_.metadata.begin(), header_.metadata.end(),
                                     [&](const auto& entry) { return entry.first == key; });
    return member == header_.metadata.end() ? nullptr : &member->second;
  }

  void CompareMember(std::string_view key, const std::string& expected) {
    const std::string* const found = Member(key);
    if (found != nullptr && *found == expected) return;
    Note("header", "metadata " + std::string(key) + " '" + expected + "'",
         found == nullptr ? "none" : "'" + *found + "'");
  }

  /// Stock tools follow these members: one that names another tensor than the index misleads them.
  void CompareAliases() {
    for (const auto& [key, value] : header_.metadata) {
      const auto alias = index_.alias_names.Find(key);
      if (!alias || format::IsReservedMember(key)) continue;
      const std::string_view target = index_.tensor_names[index_.alias_target[*alias]];
      if (value != target) Note(key, "alias of '" + std::string(target) + "'", "'" + value + "'");
    }
  }

  /// What producers gave: all members that the format does not make itself. A later minor version
  /// may have further ones that begin with "dsckpt".
  format::Metadata Producer() const {
    format::Metadata producer;
    for (const auto& member : header_.metadata) {
      const std::string_view key = member.first;
      if (key == "dsckpt" || key == "dsckpt.bytes") continue;
      const bool reserved = format::IsReservedMember(key) && key != "format";
      if (reserved && footer_.version_minor <= format::kVersionMinor) continue;
      if (!reserved && index_.alias_names.Find(key)) continue;
      producer.push_back(member);
    }
    return producer;
  }

  /// Order, spaces, escapes, aliases that are left out, the region's length: there is one header.
  void CompareText(std::string_view region) {
    bool lists = false;
    auto made =
        format::HeaderOfIndex(index_, format::ListedTensors(index_), true, Producer(), &lists);
    if (!made.ok()) return Note("header", "the canonical form", made.status().message());
    std::string expected = std::move(made).value();
    format::PatchSizes(expected, lists ? footer_.tail_begin : expected.size(), footer_.file_bytes);
    expected.replace(format::kVersionOffset, format::kVersionBytes, VersionText());
    if (expected.size() != region.size()) {
      return Note("header", "a region of " + std::to_string(expected.size()) + " bytes",
                  std::to_string(region.size()));
    }
    const auto difference = FirstDifference(expected, region);
    if (!difference) return;
    run_.problems.Add("header", "header-mismatch", difference->at,
                      "the canonical form: " + difference->expected, difference->found);
  }

  void CompareEntry(const format::HeaderEntry& entry, std::string expected) {
    std::string found = EntryText(entry.dtype.name, entry.shape, entry.begin, entry.end);
    if (found != expected) Note(entry.name, std::move(expected), std::move(found));
  }

  void CompareTensors() {
    const std::vector<uint32_t> listed = format::ListedTensors(index_);
    const size_t tail = std::min<size_t>(entries_.size(), 1);
    if (entries_.size() - tail != listed.size()) {
      Note("header", std::to_string(listed.size()) + " tensors",
           std::to_string(entries_.size() - tail));
      return;
    }
    for (size_t i = 0; i < listed.size(); ++i) {
      const uint32_t tensor = listed[i];
      const std::string_view name = index_.tensor_names[tensor];
      if (entries_[i].name != name) {
        Note(name, "this name in the header", "'" + entries_[i].name + "'");
        return;
      }
      const uint64_t begin = index_.tensors.offset[tensor] - footer_.data_begin;
      const auto dtype = FindDType(DType{index_.dtypes[index_.tensor_dtype[tensor]].code});
      if (!Equal(entries_[i], *dtype, index_.shape(tensor), begin)) {
        CompareEntry(entries_[i], EntryText(dtype->name, index_.shape(tensor), begin,
                                            begin + index_.tensors.raw_bytes[tensor]));
      }
    }
  }

  static bool Equal(const format::HeaderEntry& entry, const DTypeInfo& dtype,
                    std::span<const int64_t> shape, uint64_t begin) {
    return entry.begin == begin && entry.dtype.code == dtype.code &&
           std::equal(shape.begin(), shape.end(), entry.shape.begin(), entry.shape.end());
  }

  Verification& run_;
  const format::Footer& footer_;
  const format::IndexView& index_;
  const format::Header& header_;
  const std::vector<format::HeaderEntry>& entries_;
  bool same_ = true;
};

}  // namespace

Status VerifyHeader(Verification& run, const format::IndexView* index) {
  const format::Footer& footer = run.footer;
  DSCKPT_ASSIGN_OR_RETURN(const std::string region, ReadHeaderRegion(run.input, footer.data_begin));
  run.progress.Add(region.size());
  const std::span<const char> text = region;
  if (const uint64_t hash = format::Hash64(std::as_bytes(text)); hash != footer.header_xxh3_64) {
    run.problems.Add("header", "checksum", 0, Hex64(footer.header_xxh3_64), Hex64(hash));
    return Status();  // What a damaged header says differs from the index anyway.
  }
  if (index == nullptr) return Status();
  const auto header = format::ParseHeader(std::string_view(region).substr(8),
                                          footer.file_bytes - footer.data_begin);
  if (!header.ok()) {
    run.problems.Add("header", "structure", 8, "", header.status().message());
    return Status();
  }
  HeaderComparison(run, *index, *header).Compare(region);
  return Status();
}

}  // namespace dsckpt::reader
