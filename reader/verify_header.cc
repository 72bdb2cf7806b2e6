#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/limits.h"
#include "format/checksum.h"
#include "format/header.h"
#include "reader/file_impl.h"
#include "reader/stored_item.h"
#include "reader/verify_parts.h"

namespace dsckpt::reader {

namespace {

/// An entry in words, for comparing and for telling.
std::string EntryText(std::string_view dtype, std::span<const int64_t> shape, uint64_t begin,
                      uint64_t end) {
  std::string text(dtype);
  return text.append(" ").append(ShapeText(shape)) + " at [" + std::to_string(begin) + ", " +
         std::to_string(end) + ")";
}

class HeaderComparison {
 public:
  HeaderComparison(Verification& run, const format::IndexView& index, const format::Header& header)
      : run_(run), footer_(run.footer), index_(index), entries_(header.entries) {
    CompareMember(header.metadata, "dsckpt", VersionText());
    CompareMember(header.metadata, "dsckpt.bytes", SizeText());
  }

  void Compare() {
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

 private:
  void Note(std::string_view item, std::string expected, std::string found) {
    run_.problems.Add(item, "header-mismatch", 8, std::move(expected), std::move(found));
  }

  std::string VersionText() const {
    std::string text =
        std::to_string(footer_.version_major) + "." + std::to_string(footer_.version_minor);
    text.resize(std::max<size_t>(text.size(), 8), ' ');
    return text;
  }

  std::string SizeText() const {
    const std::string digits = std::to_string(footer_.file_bytes);
    return std::string(20 - digits.size(), '0') + digits;
  }

  void CompareMember(const format::Metadata& metadata, std::string_view key,
                     const std::string& expected) {
    const auto member = std::find_if(metadata.begin(), metadata.end(),
                                     [&](const auto& entry) { return entry.first == key; });
    if (member != metadata.end() && member->second == expected) return;
    Note("header", "metadata " + std::string(key) + " '" + expected + "'",
         member == metadata.end() ? "none" : "'" + member->second + "'");
  }

  void CompareEntry(const format::HeaderEntry& entry, std::string expected) {
    std::string found = EntryText(entry.dtype.name, entry.shape, entry.begin, entry.end);
    if (found != expected) Note(entry.name, std::move(expected), std::move(found));
  }

  /// Listed tensors of the index in the order of the parsed header.
  std::vector<uint32_t> Listed() const {
    std::vector<uint32_t> listed;
    for (uint32_t i = 0; i < index_.tensor_names.size(); ++i) {
      const auto dtype = FindDType(DType{index_.dtypes[index_.tensor_dtype[i]].code});
      if (dtype && dtype->listable && index_.tensors.encoding[i] == 0) listed.push_back(i);
    }
    const auto& offset = index_.tensors.offset;
    const auto& bytes = index_.tensors.raw_bytes;
    std::stable_sort(listed.begin(), listed.end(), [&](uint32_t a, uint32_t b) {
      return offset[a] != offset[b] ? offset[a] < offset[b] : bytes[a] < bytes[b];
    });
    return listed;
  }

  void CompareTensors() {
    const std::vector<uint32_t> listed = Listed();
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
  const std::vector<format::HeaderEntry>& entries_;
};

}  // namespace

Status VerifyHeader(Verification& run, const format::IndexView* index) {
  const format::Footer& footer = run.footer;
  DSCKPT_ASSIGN_OR_RETURN(const std::string region, ReadHeaderRegion(run.input, footer.data_begin));
  run.progress.Add(region.size());
  const std::span<const char> text = region;
  if (const uint64_t hash = format::Hash64(std::as_bytes(text)); hash != footer.header_xxh3_64) {
    run.problems.Add("header", "checksum", 0, ToHex64(footer.header_xxh3_64), ToHex64(hash));
    return Status();  // What a damaged header says differs from the index anyway.
  }
  if (index == nullptr) return Status();
  const auto header = format::ParseHeader(std::string_view(region).substr(8),
                                          footer.file_bytes - footer.data_begin);
  if (!header.ok()) {
    run.problems.Add("header", "structure", 8, "", header.status().message());
    return Status();
  }
  HeaderComparison(run, *index, *header).Compare();
  return Status();
}

}  // namespace dsckpt::reader
