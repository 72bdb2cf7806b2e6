// Tells what a file is from its first and its last bytes.

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

#include "base/little_endian.h"
#include "format/footer/footer.h"
#include "format/footer/foreign.h"
#include "format/header/header.h"

namespace dsckpt::format {
namespace {

constexpr uint64_t kLengthBytes = 8;
// The declared file size: 20 digits behind the mark, the version (8) and the key's text.
constexpr std::string_view kSizeKey = "\",\"dsckpt.bytes\":\"";
constexpr size_t kSizeKeyOffset = kLengthBytes + kHeaderMark.size() + 8;
constexpr size_t kSizeOffset = kSizeKeyOffset + kSizeKey.size();
constexpr size_t kSizeDigits = 20;

std::string_view Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Status NotCheckpoint(const std::string& what) {
  return Status(StatusCode::kNotCheckpoint,
                what + ": neither a dsckpt shard nor a safetensors file");
}

Status Truncated(const std::string& declared_by, const std::string& expected, uint64_t found) {
  return Status(StatusCode::kTruncated, "truncated: " + declared_by + " declares " + expected +
                                            " bytes, the file has " + std::to_string(found) +
                                            "; use another copy")
      .WithOffset(found);
}

Status CheckSize(const std::string& declared_by, uint64_t expected, uint64_t found) {
  if (found < expected) return Truncated(declared_by, std::to_string(expected), found);
  if (found > expected) {
    return Status(StatusCode::kTrailingBytes, "trailing bytes: " + declared_by + " declares " +
                                                  std::to_string(expected) +
                                                  " bytes, the file has " + std::to_string(found))
        .WithOffset(expected);
  }
  return {};
}

// The file size in a shard's JSON header; nothing when the text there is not as we write it.
std::optional<uint64_t> DeclaredBytes(std::string_view head) {
  if (head.size() < kSizeOffset + kSizeDigits) return std::nullopt;
  if (head.substr(kSizeKeyOffset, kSizeKey.size()) != kSizeKey) return std::nullopt;
  const std::string_view digits = head.substr(kSizeOffset, kSizeDigits);
  uint64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// Header mark, but no footer magic: cut, extended, or damaged at the end.
Status Footless(std::string_view head, uint64_t json_bytes, uint64_t file_bytes) {
  const std::optional<uint64_t> declared = DeclaredBytes(head);
  // Only a cut inside the first page can hide the digits behind the mark.
  if (!declared && file_bytes < kSizeOffset + kSizeDigits && json_bytes <= kMaxHeaderJsonBytes) {
    return Truncated("header", "at least " + std::to_string(kLengthBytes + json_bytes), file_bytes);
  }
  if (!declared || *declared < kPageBytes + kFooterBytes) {
    return Status(StatusCode::kCorrupt,
                  "header: the declared file size is unreadable and the "
                  "footer is missing")
        .WithOffset(kSizeOffset);
  }
  DSCKPT_RETURN_IF_ERROR(CheckSize("header", *declared, file_bytes));
  return Status(StatusCode::kCorrupt,
                "footer: a dsckpt header begins the file, but no dsckpt footer ends it")
      .WithOffset(file_bytes - kFooterMagic.size());
}

// Footer magic, but no header mark.
Status Markless(std::string_view head) {
  const bool json = head.size() > kLengthBytes && head[kLengthBytes] == '{';
  return Status(StatusCode::kCorrupt,
                std::string("header: a dsckpt footer ends the file, but no dsckpt header begins "
                            "it") +
                    (json ? "; another tool rewrote it" : ""))
      .WithOffset(kLengthBytes);
}

Result<Classified> ClassifyShard(std::string_view head, std::span<const std::byte> tail,
                                 uint64_t json_bytes, uint64_t file_bytes) {
  if (tail.size() < kFooterBytes) {
    return Status(StatusCode::kCorrupt, "footer: the file ends before it").WithOffset(0);
  }
  Result<Footer> footer = DecodeFooter(tail.last<kFooterBytes>());
  if (!footer.ok()) return footer.status().WithOffset(file_bytes - kFooterBytes);
  const Footer& f = footer.value();
  if (json_bytes + kLengthBytes != f.data_begin) {
    return Status(StatusCode::kCorrupt,
                  "header: its length is " + std::to_string(json_bytes) + ", the footer expects " +
                      std::to_string(f.data_begin - kLengthBytes) +
                      ": damaged, or rewritten by another tool (the footer declares " +
                      std::to_string(f.file_bytes) + " bytes, the file has " +
                      std::to_string(file_bytes) + ")")
        .WithOffset(0);
  }
  DSCKPT_RETURN_IF_ERROR(CheckSize("footer", f.file_bytes, file_bytes));
  if (Status status = CheckGeometry(f); !status.ok()) {
    return std::move(status).WithOffset(file_bytes - kFooterBytes);
  }
  if (const auto declared = DeclaredBytes(head); declared != file_bytes) {
    return Status(StatusCode::kCorrupt, "header: declares " +
                                            (declared ? std::to_string(*declared) : "unreadable") +
                                            " bytes, the file has " + std::to_string(file_bytes))
        .WithOffset(kSizeOffset);
  }
  return Classified{FileKind::kShard, f};
}

// Neither mark: plain safetensors, something else, or cut short.
Result<Classified> ClassifyPlain(std::span<const std::byte> head, uint64_t json_bytes,
                                 uint64_t file_bytes) {
  const char next = head.size() > kLengthBytes ? Text(head)[kLengthBytes] : '\0';
  const bool json = std::string_view("{ \t\r\n").find(next) != std::string_view::npos;
  const bool length_fits = json_bytes != 0 && json_bytes <= kMaxHeaderJsonBytes;
  // Some signatures are possible lengths too ("PK\3\4"): JSON behind the length decides.
  if (!(length_fits && json)) {
    const std::string_view kind = ForeignKind(head);
    if (!kind.empty()) return NotCheckpoint("this is " + std::string(kind));
  }
  if (file_bytes < kLengthBytes) {
    return NotCheckpoint("too short: " + std::to_string(file_bytes) +
                         " bytes, a checkpoint has at least 10");
  }
  if (json_bytes == 0) {
    return NotCheckpoint("the first 8 bytes, the header length, are 0");
  }
  if (json_bytes > kMaxHeaderJsonBytes) {
    const std::string what = "header length " + std::to_string(json_bytes) +
                             " is above the safetensors limit of " +
                             std::to_string(kMaxHeaderJsonBytes);
    if (!json) return NotCheckpoint(what);
    return Status(StatusCode::kCorrupt, what).WithOffset(0);
  }
  if (json_bytes > file_bytes - kLengthBytes) {
    if (!json && head.size() > kLengthBytes) {
      return NotCheckpoint("header length " + std::to_string(json_bytes) + " exceeds the file's " +
                           std::to_string(file_bytes) + " bytes");
    }
    return Truncated("header length", "at least " + std::to_string(kLengthBytes + json_bytes),
                     file_bytes);
  }
  return Classified{};
}

}  // namespace

Result<Classified> Classify(std::span<const std::byte> head, std::span<const std::byte> tail,
                            uint64_t file_bytes) {
  if (file_bytes == 0) return NotCheckpoint("the file is empty (0 bytes)");
  // The header is written last: whatever follows the zeros, the save did not finish.
  const bool zeros =
      std::all_of(head.begin(), head.end(), [](std::byte b) { return b == std::byte{0}; });
  if (zeros && file_bytes >= kLengthBytes) {
    return NotCheckpoint("begins with zeros, as a save that was not finished does");
  }
  const uint64_t json_bytes =
      head.size() < kLengthBytes ? 0 : LoadLittleEndian<uint64_t>(head.data());
  const bool mark =
      head.size() > kLengthBytes && Text(head).substr(kLengthBytes).starts_with(kHeaderMark);
  const bool magic = HasFooterMagic(tail);
  if (mark && magic) return ClassifyShard(Text(head), tail, json_bytes, file_bytes);
  if (mark) return Footless(Text(head), json_bytes, file_bytes);
  if (magic) return Markless(Text(head));
  return ClassifyPlain(head, json_bytes, file_bytes);
}

}  // namespace dsckpt::format
