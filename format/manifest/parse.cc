// Verifying one from a file.

#include <cstdint>
#include <string>

#include "dsckpt/limits.h"
#include "format/columns/flatbuffer_borrow.h"
#include "format/manifest/check.h"
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
  view.dtypes = borrow.Column<DTypeRecord>(manifest.dtypes());
  view.logical_dtype = borrow.Column<uint8_t>(manifest.logical_dtype());
  view.pieces = borrow.Pieces(manifest.pieces());
  view.piece_shard = borrow.Column<uint32_t>(manifest.piece_shard());
  DSCKPT_RETURN_IF_ERROR(borrow.CheckAligned(kManifestPart));
  return view;
}

}  // namespace

Result<ManifestView> ParseManifest(std::span<const std::byte> bytes) {
  DSCKPT_ASSIGN_OR_RETURN(const auto buffer, CheckManifestTrailer(bytes));
  const auto* data = reinterpret_cast<const uint8_t*>(buffer.data());
  flatbuffers::Verifier verifier(data, buffer.size(), kMaxTableDepth, kMaxTables);
  if (!fbs::VerifyManifestBuffer(verifier)) {
    return ColumnError(kManifestPart, "structure", "FlatBuffer",
                       "a valid \"DSCM\" buffer of " + std::to_string(buffer.size()) + " bytes",
                       "an invalid one");
  }
  DSCKPT_ASSIGN_OR_RETURN(ManifestView view, Borrow(*fbs::GetManifest(data)));
  DSCKPT_RETURN_IF_ERROR(CheckManifest(view));
  return view;
}

}  // namespace dsckpt::format
