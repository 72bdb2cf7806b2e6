#include "format/footer/foreign.h"

#include <algorithm>
#include <cstdint>

namespace dsckpt::format {
namespace {

struct Signature {
  std::string_view bytes;
  std::string_view kind;
};

using std::string_view_literals::operator""sv;

// As each format's own specification has it; text formats that people pass by mistake come last.
constexpr Signature kSignatures[] = {
    {"PK\x03\x04"sv, "a zip archive, as torch.save (.pt, .pth) and numpy (.npz) write"},
    {"GGUF"sv, "a GGUF model"},
    {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
    {"\x93NUMPY"sv, "a numpy .npy array"},
    {"\x1f\x8b"sv, "gzip-compressed"},
    {"\x28\xb5\x2f\xfd"sv, "zstd-compressed"},
    {"version https://git-lfs"sv, "a Git LFS pointer: the file itself was not downloaded"},
    {"{"sv, "JSON text, perhaps the index of a sharded checkpoint"},
};

// Protocols 2 to 5 begin with PROTO and their number; older ones have no signature.
bool IsPickle(std::string_view head) {
  return head.size() >= 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5;
}

// Of the identifier in a manifest's FlatBuffer, behind its root offset.
bool IsManifest(std::string_view head) { return head.substr(0, 8).ends_with("DSCM"sv); }

// As a header length, eight ASCII characters are beyond every limit. Behind them UTF-8 may stand.
bool IsText(std::string_view head) {
  constexpr size_t kLength = 8;
  const auto is_text = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 ? byte != 0x7F : "\t\n\r\f"sv.find(c) != std::string_view::npos;
  };
  return head.size() >= kLength && std::all_of(head.begin(), head.end(), is_text) &&
         std::all_of(head.begin(), head.begin() + kLength,
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

std::string_view ForeignKind(std::span<const std::byte> head) {
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  if (IsPickle(text)) return "a Python pickle, as older torch.save files are";
  for (const Signature& signature : kSignatures) {
    if (text.starts_with(signature.bytes)) return signature.kind;
  }
  if (IsManifest(text)) return "the manifest of a checkpoint: its directory is what is opened";
  if (IsText(text)) return "text";
  return {};
}

}  // namespace dsckpt::format
