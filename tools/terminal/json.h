#ifndef DSCKPT_TOOLS_TERMINAL_JSON_H_
#define DSCKPT_TOOLS_TERMINAL_JSON_H_

// JSON as it is built.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/status.h"

namespace dsckpt::tools {

class Console;

/// Writes one JSON document to the console as it is built, so that a million tensors need no
/// document in memory. Keys keep their order. In strings, what a terminal could act on is escaped.
class JsonWriter {
 public:
  explicit JsonWriter(Console& console) : console_(&console) {}
  /// Appends to `out`, which outlives it.
  explicit JsonWriter(std::string& out) : out_(&out) {}

  enum class Layout { kLines, kFlat };  ///< One member a line, or all on one.
  void BeginObject(Layout layout = Layout::kFlat) { Begin('{', '}', layout); }
  void BeginArray(Layout layout = Layout::kFlat) { Begin('[', ']', layout); }
  void End();

  /// The key of the next value. REQUIRES: inside an object.
  JsonWriter& Key(std::string_view key);
  /// Comes back exactly: paths that are not UTF-8, as {"$bytes":"base64"}.
  void String(std::string_view text);
  /// A sentence; bytes in it that are not UTF-8 as \xNN.
  void Sentence(std::string_view text);
  void Int(int64_t number);
  void Uint(uint64_t number);
  /// Shortest text that reads back to the same double, always with a point or exponent. REQUIRES:
  /// finite.
  void Double(double number);
  void Bool(bool value);
  void Null();

 private:
  struct Level {
    char close;
    Layout layout;
    bool empty = true;
  };
  void Write(std::string_view text);
  void Begin(char open, char close, Layout layout);
  void Separate();
  void Scalar(std::string_view text);
  void NewLine();

  Console* console_ = nullptr;
  std::string* out_ = nullptr;
  std::vector<Level> levels_;
  bool after_key_ = false;
};

/// `text` as a JSON string with its quotes; bytes that are not UTF-8 as \xNN.
std::string JsonQuoted(std::string_view text);

/// {"schema":"dsckpt.error/1","path","code","message","offset"}
void WriteErrorJson(Console& console, const Status& status);
/// The members "code", "message" and "offset" of an error, in an open object.
void WriteErrorMembers(JsonWriter& json, const Status& status);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_TERMINAL_JSON_H_
