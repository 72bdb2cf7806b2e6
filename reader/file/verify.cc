// Verify: finds out what a file is and checks its regions in order.

#include "dsckpt/verify.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "base/guarded.h"
#include "dsckpt/limits.h"
#include "format/checksum.h"
#include "format/footer/footer.h"
#include "format/index/content.h"
#include "format/index/index.h"
#include "reader/file/file_impl.h"
#include "reader/file/verify_parts.h"
#include "run/shard_index.h"

namespace dsckpt {

namespace {

using format::Footer;
using reader::Verification;
using run::FileEnds;

/// Structure failures are findings; what remains keeps the file from being verified at all.
bool IsFinding(const Status& status) {
  return status.code() == StatusCode::kCorrupt || status.code() == StatusCode::kTruncated ||
         status.code() == StatusCode::kTrailingBytes;
}

/// The file size that a shard's JSON header declares, if it is readable.
std::optional<uint64_t> DeclaredBytes(std::span<const std::byte> head) {
  constexpr std::string_view kKey = "\"dsckpt.bytes\":\"";
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  const size_t at = text.find(kKey);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view digits = text.substr(at + kKey.size(), 20);
  uint64_t value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (result.ec != std::errc() || result.ptr != digits.data() + 20) return std::nullopt;
  return value;
}

/// Adds a failure to open as a problem of `region`.
void AddFinding(Verification& run, const Status& status, std::string_view region,
                std::span<const std::byte> head) {
  const uint64_t size = run.input.size();
  const uint64_t offset = status.offset() < 0 ? 0 : static_cast<uint64_t>(status.offset());
  if (status.code() == StatusCode::kCorrupt) {
    run.problems.Add(region, "structure", offset, "", status.message());
    return;
  }
  const bool truncated = status.code() == StatusCode::kTruncated;
  const std::string_view kind = truncated ? "truncated" : "trailing-bytes";
  const uint64_t declared = DeclaredBytes(head).value_or(size);
  if (declared != size) {
    run.problems.Add("file", kind, std::min(size, declared), std::to_string(declared) + " bytes",
                     std::to_string(size) + " bytes");
  } else {  // Plain safetensors, or a file that shrank under the verification.
    run.problems.Add("file", kind, offset, "", status.message());
  }
}

/// A damaged header does not keep the rest from being verified. Nothing when the footer is what is
/// wrong.
std::optional<Footer> WholeFooter(std::span<const std::byte> tail, uint64_t size) {
  if (tail.size() != kFooterBytes || !format::HasFooterMagic(tail)) return std::nullopt;
  const auto footer = format::DecodeFooter(tail.first<kFooterBytes>());
  if (!footer.ok() || footer->file_bytes != size || !format::CheckGeometry(*footer).ok()) {
    return std::nullopt;
  }
  return *footer;
}

/// The index's columns when it is whole; `memory` is what they borrow from.
Result<std::optional<format::IndexView>> VerifyIndex(Verification& run, io::AlignedBuffer& memory) {
  const Footer& footer = run.footer;
  DSCKPT_ASSIGN_OR_RETURN(memory, run::ReadIndexBytes(run.input, footer));
  run.progress.Add(footer.index_bytes);
  if (const uint64_t hash = format::Hash64(memory.bytes()); hash != footer.index_xxh3_64) {
    run.problems.Add("index", "checksum", footer.index_offset, Hex64(footer.index_xxh3_64),
                     Hex64(hash));
    return std::optional<format::IndexView>();
  }
  auto index = format::ParseIndex(memory.bytes(),
                                  {footer.data_begin, footer.tail_begin, footer.index_offset});
  if (index.ok()) return std::optional(std::move(index).value());
  if (!IsFinding(index.status())) return index.status();
  run.problems.Add("index", "structure", footer.index_offset, "", index.status().message());
  return std::optional<format::IndexView>();
}

/// A digest that cannot be computed, as the hash of the chunks is not known, is none to compare.
void VerifyContent(Verification& run, const format::IndexView& index) {
  const auto& recorded = index.annotations.content;
  const auto computed = recorded ? format::ContentDigest(index) : std::nullopt;
  if (!computed || *computed == *recorded) return;
  run.problems.Add("content", "checksum", run.footer.index_offset, format::ToHex(*recorded),
                   format::ToHex(*computed));
}

Status VerifyShard(Verification& run) {
  run.progress.Add(kFooterBytes);  // Its own checksum held when it was decoded.
  io::AlignedBuffer memory;
  DSCKPT_ASSIGN_OR_RETURN(const auto index, VerifyIndex(run, memory));
  DSCKPT_RETURN_IF_ERROR(reader::VerifyHeader(run, index ? &*index : nullptr));
  if (!index) return Status();
  VerifyContent(run, *index);
  reader::VerifyTree(run, *index);
  return reader::VerifyItems(run, *index);
}

Status VerifySafetensors(Verification& run) {
  auto index = reader::ReadSafetensorsIndex(run.input);
  if (index.ok()) {
    run.progress.Add(index->header_bytes);
    return Status();
  }
  if (index.status().code() == StatusCode::kUnsupported) {
    run.problems.Add("header", "unsupported", 0, "", index.status().message());
    return Status();
  }
  return index.status();
}

/// Finds out what the file is and checks it as that. Findings may also be returned.
Status VerifyAny(Verification& run, const FileEnds& ends) {
  const auto what = format::Classify(ends.head, ends.tail, run.input.size());
  if (what.ok()) {
    if (what->kind == format::FileKind::kSafetensors) return VerifySafetensors(run);
    run.footer = what->footer;
    return VerifyShard(run);
  }
  if (what.status().code() != StatusCode::kCorrupt) return what.status();
  const uint64_t size = run.input.size();
  const bool in_footer =
      what.status().offset() + static_cast<int64_t>(kFooterBytes) >= static_cast<int64_t>(size);
  const auto footer = WholeFooter(ends.tail, size);
  AddFinding(run, what.status(), in_footer ? "footer" : "header", ends.head);
  if (!footer) return Status();
  run.footer = *footer;
  return VerifyShard(run);
}

}  // namespace

Result<VerifyReport> Verify(const std::string& path, const VerifyOptions& options) {
  DSCKPT_ASSIGN_OR_RETURN(const auto input, io::InputFile::Open(path));
  const auto ends = run::ReadEnds(*input);
  if (!ends.ok()) return reader::InFile(ends.status(), *input);
  Verification run{*input, options, {}, {}, {options, input->size()}};
  // The progress callback may throw wherever something was read.
  const Status status = Guarded([&] { return VerifyAny(run, *ends); });
  if (!status.ok()) {
    if (!IsFinding(status)) return reader::InFile(status, *input);
    AddFinding(run, status, "header", ends->head);
  }
  DSCKPT_RETURN_IF_ERROR(Guarded([&] {
    run.progress.Finish();
    return Status();
  }));
  VerifyReport report;
  report.checked_bytes = run.progress.done();
  report.problems = run.problems.Take();
  report.ok = report.problems.empty();
  return report;
}

}  // namespace dsckpt
