#include "tools/pickle_opcodes.h"

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tools/terminal/console.h"
#include "tools/terminal/format.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

/// What follows an opcode.
enum class Follows : uint8_t {
  kNothing,
  kLine,      ///< text to the end of the line
  kTwoLines,  ///< the same twice
  kUint1,
  kUint2,
  kInt4,
  kUint4,
  kUint8,
  kDouble,  ///< big-endian
  kBytes1,  ///< a length of so many bytes, and that many bytes
  kBytes4,
  kBytes8,
};

struct Opcode {
  unsigned char code;
  const char* name;
  Follows follows;
};

using enum Follows;
constexpr auto kOpcodes = std::to_array<Opcode>({
    {'(', "MARK", kNothing},
    {'.', "STOP", kNothing},
    {'0', "POP", kNothing},
    {'1', "POP_MARK", kNothing},
    {'2', "DUP", kNothing},
    {'F', "FLOAT", kLine},
    {'I', "INT", kLine},
    {'J', "BININT", kInt4},
    {'K', "BININT1", kUint1},
    {'L', "LONG", kLine},
    {'M', "BININT2", kUint2},
    {'N', "NONE", kNothing},
    {'P', "PERSID", kLine},
    {'Q', "BINPERSID", kNothing},
    {'R', "REDUCE", kNothing},
    {'S', "STRING", kLine},
    {'T', "BINSTRING", kBytes4},
    {'U', "SHORT_BINSTRING", kBytes1},
    {'V', "UNICODE", kLine},
    {'X', "BINUNICODE", kBytes4},
    {'a', "APPEND", kNothing},
    {'b', "BUILD", kNothing},
    {'c', "GLOBAL", kTwoLines},
    {'d', "DICT", kNothing},
    {'}', "EMPTY_DICT", kNothing},
    {'e', "APPENDS", kNothing},
    {'g', "GET", kLine},
    {'h', "BINGET", kUint1},
    {'i', "INST", kTwoLines},
    {'j', "LONG_BINGET", kUint4},
    {'l', "LIST", kNothing},
    {']', "EMPTY_LIST", kNothing},
    {'o', "OBJ", kNothing},
    {'p', "PUT", kLine},
    {'q', "BINPUT", kUint1},
    {'r', "LONG_BINPUT", kUint4},
    {'s', "SETITEM", kNothing},
    {'t', "TUPLE", kNothing},
    {')', "EMPTY_TUPLE", kNothing},
    {'u', "SETITEMS", kNothing},
    {'G', "BINFLOAT", kDouble},
    {0x80, "PROTO", kUint1},
    {0x81, "NEWOBJ", kNothing},
    {0x82, "EXT1", kUint1},
    {0x83, "EXT2", kUint2},
    {0x84, "EXT4", kInt4},
    {0x85, "TUPLE1", kNothing},
    {0x86, "TUPLE2", kNothing},
    {0x87, "TUPLE3", kNothing},
    {0x88, "NEWTRUE", kNothing},
    {0x89, "NEWFALSE", kNothing},
    {0x8a, "LONG1", kBytes1},
    {0x8b, "LONG4", kBytes4},
    {'B', "BINBYTES", kBytes4},
    {'C', "SHORT_BINBYTES", kBytes1},
    {0x8c, "SHORT_BINUNICODE", kBytes1},
    {0x8d, "BINUNICODE8", kBytes8},
    {0x8e, "BINBYTES8", kBytes8},
    {0x8f, "EMPTY_SET", kNothing},
    {0x90, "ADDITEMS", kNothing},
    {0x91, "FROZENSET", kNothing},
    {0x92, "NEWOBJ_EX", kNothing},
    {0x93, "STACK_GLOBAL", kNothing},
    {0x94, "MEMOIZE", kNothing},
    {0x95, "FRAME", kUint8},
    {0x96, "BYTEARRAY8", kBytes8},
    {0x97, "NEXT_BUFFER", kNothing},
    {0x98, "READONLY_BUFFER", kNothing},
});

/// Takes what follows opcodes from a text. Nothing: the text ends within it.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  bool empty() const { return at_ == text_.size(); }
  size_t at() const { return at_; }
  unsigned char Next() { return static_cast<unsigned char>(text_[at_++]); }

  std::optional<uint64_t> Number(size_t bytes) {
    if (text_.size() - at_ < bytes) return std::nullopt;
    uint64_t number = 0;
    for (size_t i = 0; i < bytes; ++i) {
      number |= uint64_t{static_cast<unsigned char>(text_[at_ + i])} << (8 * i);
    }
    at_ += bytes;
    return number;
  }
  std::optional<std::string_view> Line() {
    const size_t end = text_.find('\n', at_);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = text_.substr(at_, end - at_);
    at_ = end + 1;
    return line;
  }
  std::optional<std::string_view> Bytes(size_t length_bytes) {
    const auto length = Number(length_bytes);
    if (!length || text_.size() - at_ < *length) return std::nullopt;
    const std::string_view bytes = text_.substr(at_, *length);
    at_ += *length;
    return bytes;
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

std::string Shown(std::string_view bytes) {
  constexpr size_t kShown = 200;
  std::string text = TerminalName(bytes.substr(0, kShown));
  if (bytes.size() > kShown) text += Format("... ({})", Count(bytes.size(), "byte"));
  return text;
}

std::optional<std::string> NumberText(Cursor& cursor, size_t bytes) {
  const auto number = cursor.Number(bytes);
  return number ? std::optional(std::to_string(*number)) : std::nullopt;
}

std::optional<std::string> BytesText(Cursor& cursor, size_t length_bytes) {
  const auto bytes = cursor.Bytes(length_bytes);
  return bytes ? std::optional(Shown(*bytes)) : std::nullopt;
}

std::optional<std::string> DoubleText(Cursor& cursor) {
  const auto little = cursor.Number(8);
  if (!little) return std::nullopt;
  uint64_t big = 0;
  for (int i = 0; i < 8; ++i) big = big << 8 | (*little >> (8 * i) & 0xFF);
  return Format("{}", std::bit_cast<double>(big));
}

/// What follows an opcode, as text.
std::optional<std::string> ArgumentText(Cursor& cursor, Follows follows) {
  switch (follows) {
    case kNothing:
      return "";
    case kLine: {
      const auto line = cursor.Line();
      return line ? std::optional(Shown(*line)) : std::nullopt;
    }
    case kTwoLines: {
      const auto first = cursor.Line();
      const auto second = first ? cursor.Line() : std::nullopt;
      return second ? std::optional(Shown(*first) + " " + Shown(*second)) : std::nullopt;
    }
    case kUint1:
      return NumberText(cursor, 1);
    case kUint2:
      return NumberText(cursor, 2);
    case kUint4:
      return NumberText(cursor, 4);
    case kUint8:
      return NumberText(cursor, 8);
    case kInt4: {
      const auto number = cursor.Number(4);
      if (!number) return std::nullopt;
      return std::to_string(static_cast<int32_t>(static_cast<uint32_t>(*number)));
    }
    case kDouble:
      return DoubleText(cursor);
    case kBytes1:
      return BytesText(cursor, 1);
    case kBytes4:
      return BytesText(cursor, 4);
    case kBytes8:
      return BytesText(cursor, 8);
  }
  return std::nullopt;
}

const Opcode* Find(unsigned char code) {
  for (const Opcode& opcode : kOpcodes) {
    if (opcode.code == code) return &opcode;
  }
  return nullptr;
}

Status Broken(size_t offset, const std::string& what) {
  return Status(StatusCode::kCorrupt,
                Format("no pickle: {} at byte {} of the object", what, offset));
}

}  // namespace

Status PrintPickleOpcodes(Console& console, std::span<const std::byte> bytes) {
  Cursor cursor({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  while (console.writable()) {
    const size_t offset = cursor.at();
    if (cursor.empty()) return Broken(offset, "the bytes end without STOP");
    const unsigned char code = cursor.Next();
    const Opcode* const opcode = Find(code);
    if (opcode == nullptr) return Broken(offset, Format("unknown opcode {}", unsigned{code}));
    const auto argument = ArgumentText(cursor, opcode->follows);
    if (!argument) return Broken(offset, Format("the bytes end within {}", opcode->name));
    console.Print("{:>8}  {}{}{}\n", offset, opcode->name, argument->empty() ? "" : " ", *argument);
    if (code == '.') break;
  }
  return {};
}

}  // namespace dsckpt::tools
