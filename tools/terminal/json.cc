#include "tools/terminal/json.h"

#include <iterator>
#include <span>

#include "merge/number_text.h"
#include "tools/terminal/console.h"
#include "tools/terminal/format.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

void AppendEscaped(std::string& out, const CodePoint& point, std::string_view raw) {
  switch (point.value) {
    case '"':
      out += "\\\"";
      break;
    case '\\':
      out += "\\\\";
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    default:
      // Unsafe characters all lie in the basic plane: one escape each.
      if (IsUnsafe(point.value)) {
        FormatTo(out, "\\u{:04x}", static_cast<uint32_t>(point.value));
      } else {
        out += raw;
      }
  }
}

}  // namespace

std::string JsonQuoted(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 2);
  out += '"';
  while (!text.empty()) {
    const CodePoint point = FrontCodePoint(text);
    if (point.valid) {
      AppendEscaped(out, point, text.substr(0, point.bytes));
    } else {
      FormatTo(out, "\\\\x{:02x}", static_cast<unsigned char>(text[0]));
    }
    text.remove_prefix(point.bytes);
  }
  out += '"';
  return out;
}

void JsonWriter::Write(std::string_view text) {
  console_ != nullptr ? console_->Write(text) : static_cast<void>(out_->append(text));
}

void JsonWriter::NewLine() {
  Write("\n");
  for (const Level& level : levels_) {
    if (level.layout == Layout::kLines) Write("  ");
  }
}

void JsonWriter::Separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (levels_.empty()) return;
  Level& level = levels_.back();
  if (!level.empty) Write(",");
  level.empty = false;
  if (level.layout == Layout::kLines) NewLine();
}

void JsonWriter::Begin(char open, char close, Layout layout) {
  Separate();
  if (console_ != nullptr && console_->one_line_documents()) layout = Layout::kFlat;
  Write({&open, 1});
  levels_.push_back({close, layout});
}

void JsonWriter::End() {
  const Level level = levels_.back();
  levels_.pop_back();
  if (level.layout == Layout::kLines && !level.empty) NewLine();
  Write({&level.close, 1});
  if (levels_.empty()) Write("\n");
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  Separate();
  Write(JsonQuoted(key));
  Write(levels_.back().layout == Layout::kLines ? ": " : ":");
  after_key_ = true;
  return *this;
}

void JsonWriter::Scalar(std::string_view text) {
  Separate();
  Write(text);
}

void JsonWriter::String(std::string_view text) {
  if (IsUtf8(text)) return Sentence(text);
  BeginObject();
  Key("$bytes").Sentence(Base64(std::as_bytes(std::span(text))));
  End();
}

void JsonWriter::Sentence(std::string_view text) { Scalar(JsonQuoted(text)); }
void JsonWriter::Int(int64_t number) { Scalar(std::to_string(number)); }
void JsonWriter::Uint(uint64_t number) { Scalar(std::to_string(number)); }
void JsonWriter::Double(double number) { Scalar(merge::DoubleText(number)); }
void JsonWriter::Bool(bool value) { Scalar(value ? "true" : "false"); }
void JsonWriter::Null() { Scalar("null"); }

void WriteErrorMembers(JsonWriter& json, const Status& status) {
  json.Key("code").String(StatusCodeName(status.code()));
  json.Key("message").Sentence(Sentence(status));
  json.Key("offset");
  status.offset() < 0 ? json.Null() : json.Int(status.offset());
}

void WriteErrorJson(Console& console, const Status& status) {
  JsonWriter json(console);
  json.BeginObject(JsonWriter::Layout::kLines);
  json.Key("schema").String("dsckpt.error/1");
  json.Key("path");
  status.path().empty() ? json.Null() : json.String(status.path());
  WriteErrorMembers(json, status);
  json.End();
}

}  // namespace dsckpt::tools
