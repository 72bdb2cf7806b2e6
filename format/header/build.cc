// Writes the JSON header in its canonical form (spec/format.md, "JSON header").

#include <algorithm>
#include <array>
#include <charconv>

#include "base/align.h"
#include "base/little_endian.h"
#include "base/text.h"
#include "dsckpt/limits.h"
#include "format/header/header.h"

// The canonical JSON header that we write (spec/format.md, "JSON header"). Fields whose values only
// the end of a save knows have a fixed width and a fixed place: the file size at the front, the
// numbers of the tail entry at the back.

namespace dsckpt::format {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr size_t kNumberWidth = 20;  // digits of 2^64-1
constexpr std::string_view kVersionText = "1.1     ";
constexpr std::string_view kSizeKey = "\",\"dsckpt.bytes\":\"";
constexpr size_t kSizeOffset =
    kLengthBytes + kHeaderMark.size() + kVersionText.size() + kSizeKey.size();

constexpr std::string_view kTailShape = "\"__dsckpt__\":{\"dtype\":\"U8\",\"shape\":[";
constexpr std::string_view kTailOffsets = "],\"data_offsets\":[";
constexpr std::string_view kTailEnd = "]}";
// Three numbers, a comma between the offsets, and the brace that ends the JSON.
constexpr size_t kTailEntryBytes = kTailShape.size() + kNumberWidth + kTailOffsets.size() +
                                   kNumberWidth + 1 + kNumberWidth + kTailEnd.size() + 1;

void AppendNumber(std::string& out, uint64_t value) {
  std::array<char, kNumberWidth> digits;
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  out.append(digits.data(), result.ptr);
}

// Digits, then spaces, which JSON allows between a number and the next token.
std::string SpacePadded(uint64_t value) {
  std::string text = std::to_string(value);
  text.append(kNumberWidth - text.size(), ' ');
  return text;
}

std::string ZeroPadded(uint64_t value) {
  const std::string text = std::to_string(value);
  return std::string(kNumberWidth - text.size(), '0') + text;
}

void AppendMember(std::string& out, std::string_view key, std::string_view value) {
  AppendJsonString(out, key);
  out += ':';
  AppendJsonString(out, value);
}

// `format` leads, the rest follows by key bytes.
void AppendMembers(std::string& out, const Metadata& metadata) {
  std::vector<const Metadata::value_type*> members;
  std::string_view format = "pt";
  for (const auto& member : metadata) {
    if (member.first == "format") {
      format = member.second;
    } else {
      members.push_back(&member);
    }
  }
  std::sort(members.begin(), members.end(),
            [](const auto* a, const auto* b) { return a->first < b->first; });
  AppendMember(out, "format", format);
  for (const auto* member : members) {
    out += ',';
    AppendMember(out, member->first, member->second);
  }
}

void AppendEscape(std::string& out, char c) {
  switch (c) {
    case '"':
    case '\\':
      out += {'\\', c};
      return;
    case '\b':
      out += "\\b";
      return;
    case '\f':
      out += "\\f";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += "\\u00";
      AppendHex(out, static_cast<uint8_t>(c));
  }
}

}  // namespace

void AppendJsonString(std::string& out, std::string_view text) {
  out += '"';
  size_t verbatim = 0;  // [verbatim, i) waits to be copied as it is.
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<uint8_t>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text, verbatim, i - verbatim);
    AppendEscape(out, text[i]);
    verbatim = i + 1;
  }
  out.append(text, verbatim);
  out += '"';
}

void AppendEntry(std::string& out, std::string_view name, std::string_view dtype,
                 std::span<const int64_t> shape, uint64_t begin, uint64_t end) {
  AppendJsonString(out, name);
  out.append(":{\"dtype\":\"").append(dtype).append("\",\"shape\":[");
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != 0) out += ',';
    AppendNumber(out, static_cast<uint64_t>(shape[i]));
  }
  out += "],\"data_offsets\":[";
  AppendNumber(out, begin);
  out += ',';
  AppendNumber(out, end);
  out += "]}";
}

std::string TailEntry(uint64_t begin, uint64_t end) {
  std::string text;
  text.append(kTailShape).append(SpacePadded(end - begin));
  text.append(kTailOffsets).append(SpacePadded(begin)).append(",").append(SpacePadded(end));
  text.append(kTailEnd);
  return text;
}

HeaderBuilder::HeaderBuilder(bool shard, const Metadata& metadata)
    : text_(kLengthBytes, '\0'), shard_(shard) {
  if (shard) {
    text_.append(kHeaderMark).append(kVersionText).append(kSizeKey).append(ZeroPadded(0));
    text_ += "\",";
  } else {
    text_ += "{\"__metadata__\":{";
  }
  AppendMembers(text_, metadata);
  text_ += "},";
  first_entry_ = text_.size();
}

void HeaderBuilder::Add(std::string_view name, std::string_view dtype,
                        std::span<const int64_t> shape, uint64_t begin, uint64_t end) {
  // Above the cap nothing of the entries is kept (Finish): do not collect gigabytes for that.
  if (text_.size() > kLengthBytes + kMaxHeaderJsonBytes) return;
  AppendEntry(text_, name, dtype, shape, begin, end);
  text_ += ',';
}

Result<std::string> HeaderBuilder::Finish(bool* listed) {
  const size_t alignment = shard_ ? kPageBytes : 8;
  // With the tail entry, or with a brace in the place of the last comma.
  const auto padded = [&] {
    const size_t bytes = text_.size() + (shard_ ? kTailEntryBytes : 0);
    return RoundUp(bytes, alignment);
  };
  *listed = true;
  if (shard_ && padded() > kLengthBytes + kMaxHeaderJsonBytes) {
    text_.resize(first_entry_);
    *listed = false;
  }
  const size_t region = padded();
  if (region > kLengthBytes + kMaxHeaderJsonBytes) {
    return Status(StatusCode::kLimitExceeded,
                  "the safetensors header would exceed " + std::to_string(kMaxHeaderJsonBytes) +
                      " bytes, which no stock loader opens: save fewer tensors in one file" +
                      (shard_ ? ", or less metadata" : ", or as a dsckpt shard"));
  }
  text_.reserve(region);
  if (shard_) {
    text_ += TailEntry(0, 0);
  } else {
    text_.pop_back();
  }
  text_ += '}';
  text_.resize(region, ' ');
  StoreLittleEndian(reinterpret_cast<std::byte*>(text_.data()),
                    static_cast<uint64_t>(region - kLengthBytes));
  return std::move(text_);
}

void PatchSizes(std::string& region, uint64_t tail_begin, uint64_t file_bytes) {
  const uint64_t data_begin = region.size();
  region.replace(kSizeOffset, kNumberWidth, ZeroPadded(file_bytes));
  const size_t json_end = region.find_last_not_of(' ') + 1;
  const std::string tail = TailEntry(tail_begin - data_begin, file_bytes - data_begin);
  region.replace(json_end - 1 - tail.size(), tail.size(), tail);
}

}  // namespace dsckpt::format
