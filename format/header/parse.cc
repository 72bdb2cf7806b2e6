// Reads the JSON header of any safetensors file, strictly.

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "dsckpt/limits.h"
#include "format/header/check.h"
#include "format/header/header.h"

namespace dsckpt::format {
namespace {

// Receives the events of nlohmann's SAX parser. Every method returns false to stop, with `status_`
// set: the grammar has three levels, so that deeper nesting ends the parse at its first bracket.
class HeaderHandler {
 public:
  using Json = nlohmann::json;

  explicit HeaderHandler(Header& header) : header_(header) {}
  Status TakeStatus() { return std::move(status_); }

  bool null() {
    if (state_ != State::kMetadataValue) return Unexpected("null");
    state_ = State::kTop;
    return true;
  }
  bool boolean(bool) { return Unexpected("a boolean"); }
  bool number_integer(Json::number_integer_t) { return Unexpected("a negative number"); }
  bool number_unsigned(Json::number_unsigned_t value);
  bool number_float(Json::number_float_t, const std::string& text) {
    return Unexpected("the number " + text.substr(0, 40) + ", which is no 64-bit integer");
  }
  bool string(std::string& value);
  bool binary(Json::binary_t&) { return Unexpected("binary data"); }
  bool start_object(size_t);
  bool key(std::string& name);
  bool end_object();
  bool start_array(size_t);
  bool end_array();
  // `read`: characters read so far, the offending one included.
  bool parse_error(size_t read, const std::string&, const nlohmann::detail::exception&) {
    const size_t position = read == 0 ? 0 : read - 1;
    status_ = HeaderError(StatusCode::kCorrupt, "not valid JSON at byte " +
                                                    std::to_string(position) + " of the JSON text")
                  .WithOffset(8 + position);
    return false;
  }

 private:
  enum class State : uint8_t {
    kStart,
    kTop,
    kMetadataValue,  // after "__metadata__":
    kMetadata,
    kMetadataMember,  // after a key in it
    kEntryValue,      // after a tensor's name
    kEntry,
    kDType,
    kShape,
    kShapeItems,
    kOffsets,
    kOffsetItems,
    kDone,
  };
  enum Field : uint8_t { kFieldDType = 1, kFieldShape = 2, kFieldOffsets = 4 };
  struct FieldName {
    std::string_view name;
    Field field;
    State next;
  };
  static constexpr std::array<FieldName, 3> kFields = {
      {{"dtype", kFieldDType, State::kDType},
       {"shape", kFieldShape, State::kShape},
       {"data_offsets", kFieldOffsets, State::kOffsets}}};

  bool Fail(StatusCode code, const std::string& what) {
    status_ = HeaderError(code, what);
    return false;
  }
  bool FailEntry(StatusCode code, const std::string& what) {
    return Fail(code, "tensor " + Quoted(entry().name) + ": " + what);
  }
  bool Unexpected(const std::string& found);
  bool EntryKey(const std::string& name);
  HeaderEntry& entry() { return header_.entries.back(); }

  Header& header_;
  State state_ = State::kStart;
  bool metadata_seen_ = false;
  uint8_t fields_ = 0;  // of the current entry
  size_t offsets_ = 0;  // numbers in its data_offsets so far
  Status status_;
};

bool HeaderHandler::Unexpected(const std::string& found) {
  switch (state_) {
    case State::kStart:
      return Fail(StatusCode::kCorrupt, "must be a JSON object, not " + found);
    case State::kMetadataValue:
      return Fail(StatusCode::kCorrupt, "__metadata__ must be an object of strings, not " + found);
    case State::kMetadataMember:
      return Fail(StatusCode::kCorrupt, "__metadata__ member " +
                                            Quoted(header_.metadata.back().first) +
                                            " must be a string, not " + found);
    case State::kEntryValue:
      return FailEntry(StatusCode::kCorrupt, "must be an object, not " + found);
    case State::kDType:
      return FailEntry(StatusCode::kCorrupt, "dtype must be a string, not " + found);
    case State::kShape:
    case State::kShapeItems:
      return FailEntry(StatusCode::kCorrupt, "shape must be an array of integers from 0 to 2^63-1" +
                                                 (", found " + found));
    case State::kOffsets:
    case State::kOffsetItems:
      return FailEntry(StatusCode::kCorrupt,
                       "data_offsets must be two integers from 0 to 2^64-1, found " + found);
    case State::kTop:
    case State::kMetadata:
    case State::kEntry:
    case State::kDone:
      break;
  }
  return Fail(StatusCode::kCorrupt, "unexpected " + found);
}

bool HeaderHandler::number_unsigned(Json::number_unsigned_t value) {
  if (state_ == State::kShapeItems) {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return FailEntry(StatusCode::kCorrupt,
                       "dimension " + std::to_string(value) + " is above 2^63-1");
    }
    if (entry().shape.size() == kMaxRank) {
      return FailEntry(StatusCode::kLimitExceeded,
                       "more than " + std::to_string(kMaxRank) + " dimensions");
    }
    entry().shape.push_back(static_cast<int64_t>(value));
    return true;
  }
  if (state_ == State::kOffsetItems && offsets_ < 2) {
    (offsets_++ == 0 ? entry().begin : entry().end) = value;
    return true;
  }
  return Unexpected("the number " + std::to_string(value));
}

bool HeaderHandler::string(std::string& value) {
  if (state_ == State::kMetadataMember) {
    header_.metadata.back().second = std::move(value);
    state_ = State::kMetadata;
    return true;
  }
  if (state_ != State::kDType) return Unexpected("a string");
  const std::optional<DTypeInfo> dtype = FindDType(value);
  if (!dtype || !dtype->listable) {
    return FailEntry(StatusCode::kUnsupported, "unknown dtype " + Quoted(value));
  }
  entry().dtype = *dtype;
  state_ = State::kEntry;
  return true;
}

bool HeaderHandler::start_object(size_t) {
  switch (state_) {
    case State::kStart:
      state_ = State::kTop;
      return true;
    case State::kMetadataValue:
      state_ = State::kMetadata;
      return true;
    case State::kEntryValue:
      state_ = State::kEntry;
      fields_ = 0;
      return true;
    default:
      return Unexpected("an object");
  }
}

bool HeaderHandler::key(std::string& name) {
  if (state_ == State::kEntry) return EntryKey(name);
  if (state_ == State::kMetadata) {
    header_.metadata.emplace_back(std::move(name), std::string());
    state_ = State::kMetadataMember;
    return true;
  }
  if (name == kMetadataName) {
    if (metadata_seen_) return Fail(StatusCode::kCorrupt, "duplicate name '__metadata__'");
    metadata_seen_ = true;
    state_ = State::kMetadataValue;
    return true;
  }
  header_.entries.push_back({std::move(name), {}, {}, 0, 0});
  state_ = State::kEntryValue;
  return true;
}

bool HeaderHandler::EntryKey(const std::string& name) {
  for (const FieldName& field : kFields) {
    if (name != field.name) continue;
    if ((fields_ & field.field) != 0) {
      return FailEntry(StatusCode::kCorrupt, "duplicate field '" + name + "'");
    }
    fields_ = static_cast<uint8_t>(fields_ | field.field);
    state_ = field.next;
    return true;
  }
  return FailEntry(StatusCode::kCorrupt, "unknown field " + Quoted(name));
}

bool HeaderHandler::end_object() {
  if (state_ == State::kEntry) {
    for (const FieldName& field : kFields) {
      if ((fields_ & field.field) == 0) {
        return FailEntry(StatusCode::kCorrupt,
                         "field '" + std::string(field.name) + "' is missing");
      }
    }
  }
  state_ = state_ == State::kTop ? State::kDone : State::kTop;
  return true;
}

bool HeaderHandler::start_array(size_t) {
  if (state_ == State::kShape) {
    state_ = State::kShapeItems;
  } else if (state_ == State::kOffsets) {
    state_ = State::kOffsetItems;
    offsets_ = 0;
  } else {
    return Unexpected("an array");
  }
  return true;
}

bool HeaderHandler::end_array() {
  if (state_ == State::kOffsetItems && offsets_ != 2) {
    return Unexpected(std::to_string(offsets_));
  }
  state_ = State::kEntry;
  return true;
}

}  // namespace

namespace {

/// Behind the object of `__metadata__`; 0 where something else stands first.
size_t LeadingMetadataEnd(std::string_view json) {
  constexpr std::string_view kBegin = "{\"__metadata__\":{";
  if (!json.starts_with(kBegin)) return 0;
  bool text = false;
  for (size_t i = kBegin.size(); i < json.size(); ++i) {
    if (json[i] == '"') text = !text;
    if (text && json[i] == '\\') ++i;
    if (!text && json[i] == '}') return i + 1;
  }
  return 0;
}

}  // namespace

Result<Header> ParseHeader(std::string_view json, uint64_t data_bytes) {
  // The parser would skip a byte order mark and take a NUL for the end of the text; the stock
  // loader refuses both.
  if (json.starts_with("\xEF\xBB\xBF")) {
    return HeaderError(StatusCode::kCorrupt, "begins with a byte order mark").WithOffset(8);
  }
  if (const size_t nul = json.find('\0'); nul != std::string_view::npos) {
    return HeaderError(StatusCode::kCorrupt,
                       "NUL byte at " + std::to_string(nul) + " of the JSON text")
        .WithOffset(8 + nul);
  }
  Header header;
  HeaderHandler handler(header);
  if (!nlohmann::json::sax_parse(json.data(), json.data() + json.size(), &handler)) {
    return handler.TakeStatus();
  }
  DSCKPT_RETURN_IF_ERROR(CheckHeader(header, json.size(), data_bytes));
  return header;
}

Result<Metadata> ParseMetadata(std::string_view json, uint64_t data_bytes) {
  if (const size_t end = LeadingMetadataEnd(json); end != 0) {
    auto alone = ParseHeader(std::string(json.substr(0, end)) + "}", 0);
    if (alone.ok()) return std::move(alone->metadata);
  }
  DSCKPT_ASSIGN_OR_RETURN(Header header, ParseHeader(json, data_bytes));
  return std::move(header.metadata);
}

}  // namespace dsckpt::format
