// Verifies a manifest that was read from a file and borrows its columns.

#include <cstdint>
#include <string>

#include "dsckpt/limits.h"
#include "format/columns/flatbuffer_borrow.h"
#include "format/manifest/manifest.h"
#include "format/manifest/trailer.h"
#include "manifest_generated.h"

namespace dsckpt::format {
namespace {

// Manifest -> Pieces -> Names; the margins are for tables that later versions append.
constexpr uint32_t kMaxTableDepth = 8;
constexpr uint32_t kMaxTables = 64;

Result<ManifestView> Borrow(const fbs::Manifest& manifest) {
  Borrower borrow;
  ManifestView view;
  view.attempt = {manifest.attempt()->c_str(), manifest.attempt()->size()};
  view.step = manifest.step();
  view.ranks = manifest.ranks();
  view.serial = manifest.serial();
  view.parent = manifest.parent();
  const fbs::Shards& shards = *manifest.shards();
  DSCKPT_RETURN_IF_ERROR(
      BorrowStrings(kManifestPart, shards.names(), "shards.names", kMaxItems, view.shard_names));
  view.shard_rank = borrow.Column<uint32_t>(shards.rank());
  view.shard_file_bytes = borrow.Column<uint64_t>(shards.file_bytes());
  view.shard_index_bytes = borrow.Column<uint64_t>(shards.index_bytes());
  view.shard_index_xxh3_64 = borrow.Column<uint64_t>(shards.index_xxh3_64());
  if (shards.content() != nullptr) view.shard_content = borrow.Column<Hash128>(shards.content());
  view.dtypes = borrow.Column<DTypeRecord>(manifest.dtypes());
  view.logical_dtype = borrow.Column<uint8_t>(manifest.logical_dtype());
  view.pieces = borrow.Pieces(manifest.pieces());
  view.piece_shard = borrow.Column<uint32_t>(manifest.piece_shard());
  if (const fbs::Parts* const parts = manifest.parts(); parts != nullptr) {
    view.part_file_bytes = borrow.Column<uint64_t>(parts->file_bytes());
    view.part_xxh3_64 = borrow.Column<uint64_t>(parts->xxh3_64());
  }
  DSCKPT_RETURN_IF_ERROR(borrow.CheckAligned(kManifestPart));
  return view;
}

// The bit keeps readers of 1.0 from taking a manifest without its parts for an empty one.
Status CheckPartsBit(const fbs::Manifest& manifest, uint64_t must_understand) {
  const bool said = (must_understand & kManifestHasParts) != 0;
  const bool has = manifest.parts() != nullptr;
  if (said != has) {
    return ColumnError(kManifestPart, "parts", "feature bit 0", has ? "1" : "0", said ? "1" : "0");
  }
  if (!has || manifest.parts()->file_bytes()->size() > 0) return {};
  return ColumnError(kManifestPart, "parts", "entries", "at least one", "none");
}

}  // namespace

Result<ManifestView> ParseManifest(std::span<const std::byte> bytes) {
  DSCKPT_ASSIGN_OR_RETURN(const ManifestBody body, CheckManifestTrailer(bytes));
  const std::span<const std::byte> buffer = body.buffer;
  const auto* data = reinterpret_cast<const uint8_t*>(buffer.data());
  flatbuffers::Verifier verifier(data, buffer.size(), kMaxTableDepth, kMaxTables);
  if (!fbs::VerifyManifestBuffer(verifier)) {
    return ColumnError(kManifestPart, "structure", "FlatBuffer",
                       "a valid \"DSCM\" buffer of " + std::to_string(buffer.size()) + " bytes",
                       "an invalid one");
  }
  const fbs::Manifest& manifest = *fbs::GetManifest(data);
  DSCKPT_RETURN_IF_ERROR(CheckPartsBit(manifest, body.must_understand));
  DSCKPT_ASSIGN_OR_RETURN(ManifestView view, Borrow(manifest));
  DSCKPT_RETURN_IF_ERROR(CheckManifest(view));
  return view;
}

}  // namespace dsckpt::format
