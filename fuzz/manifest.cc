// Parses a manifest, its checksum made right first, merges it with itself, and takes it apart and
// puts it together again.

#include "format/manifest/manifest.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "format/checksum.h"
#include "format/manifest/parts.h"

namespace {

// Walks everything that a reader of a manifest does.
void Walk(const dsckpt::format::ManifestView& manifest) {
  uint64_t seen = 0;
  for (uint32_t l = 0; l < manifest.pieces.logical_names.size(); ++l) {
    seen += manifest.pieces.logical_names.Find(manifest.pieces.logical_names[l]).value();
    const auto [first, last] = manifest.PiecesOf(l);
    for (uint32_t i = first; i < last; ++i) {
      seen += manifest.shard_names[manifest.piece_shard[i]].size();
      if (const auto piece = manifest.pieces.Get(i)) seen += piece->box.size();
    }
  }
  // A later result must not depend on the walk; the compiler must not drop it either.
  volatile uint64_t sink = seen;
  static_cast<void>(sink);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dsckpt;
  // 8-aligned.
  std::vector<uint64_t> words(size / 8 + 1);
  if (size > 0) std::memcpy(words.data(), data, size);
  const auto bytes = std::as_writable_bytes(std::span(words)).first(size);
  static_cast<void>(format::ParseManifest(bytes));
  if (size >= 64) {
    const uint64_t file_bytes = size, buffer_bytes = size - 64;
    std::memcpy(bytes.data() + size - 64, &file_bytes, sizeof file_bytes);
    std::memcpy(bytes.data() + size - 56, &buffer_bytes, sizeof buffer_bytes);
    std::memcpy(bytes.data() + size - 8, "DSCKMANI", 8);
    const uint64_t hash = format::Hash64(bytes.first(size - 16));
    std::memcpy(bytes.data() + size - 16, &hash, sizeof hash);
  }
  const auto manifest = format::ParseManifest(bytes);
  if (!manifest.ok()) return 0;
  Walk(*manifest);
  const auto merged = format::MergeManifests(std::span(&*manifest, 1));
  if (!merged.ok()) return 0;
  // What is merged from what passed must pass.
  const auto encoded = format::EncodeManifest(*merged);
  if (!encoded.ok() || !format::ParseManifest(*encoded).ok()) __builtin_trap();
  const uint32_t tensors = merged->pieces.logical_names.size();
  format::ManifestColumns united = format::WithoutPieces(format::ViewOf(*merged));
  for (const format::LogicalRange range :
       {format::LogicalRange{0, tensors / 3}, format::LogicalRange{tensors / 3, tensors}}) {
    const auto part = format::PartOf(*merged, range);
    if (!format::AppendPart(format::ViewOf(part), 0, united).ok()) __builtin_trap();
  }
  const auto again = format::EncodeManifest(united);
  if (!again.ok() || *again != *encoded) __builtin_trap();
  return 0;
}
