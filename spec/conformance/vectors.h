#ifndef DSCKPT_SPEC_CONFORMANCE_VECTORS_H_
#define DSCKPT_SPEC_CONFORMANCE_VECTORS_H_

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dsckpt/engine.h"
#include "dsckpt/provider.h"

// The conformance vectors as code: what each file holds, or how it is broken.

namespace dsckpt::conformance {

/// A file that every reader must open.
struct ValidVector {
  std::string name;
  std::function<void(Description&)> describe;
  SaveOptions options = {};
  bool first_version = true;  // A file of format 1.0, as 0.1 wrote it.
};
std::vector<ValidVector> ValidVectors();
/// Those that declare pieces; among ValidVectors().
std::vector<ValidVector> PieceVectors();

/// Files that a later version could write and this one must read; made from the bytes of the
/// vectors "mixed" and "encoded".
struct FutureVector {
  std::string name;
  std::string bytes;
};
Result<std::vector<FutureVector>> FutureVectors(const std::string& mixed,
                                                const std::string& encoded);

/// A broken variant of "mixed". Opening gives `code`; where it is kOk, or where `item` is not
/// empty, verification opens the file and finds a problem of `item` and `kind` first.
struct InvalidVector {
  std::string name;
  std::string bytes;
  StatusCode code;
  std::string message_contains;
  std::string item = {};
  std::string kind = {};
};
Result<std::vector<InvalidVector>> InvalidVectors(const std::string& mixed);

/// Those of "content", whose annotations (format 1.1) break a rule.
Result<std::vector<InvalidVector>> InvalidAnnotations(const std::string& content);

/// A manifest of the shards that are the vectors "pieces" and "pieces-rank1".
Result<std::string> ManifestVector(const std::string& pieces, const std::string& pieces_rank1);
/// Broken variants of it; each `code` is what parsing gives.
Result<std::vector<InvalidVector>> InvalidManifests(const std::string& manifest);
/// Those of "mixed" and "aliases" whose JSON header is not the one that their index leads to.
std::vector<InvalidVector> InvalidHeaders(const std::string& mixed, const std::string& aliases);

/// Those whose JSON header lists other tensors than their index.
std::vector<InvalidVector> InvalidListings(const std::string& mixed, const std::string& aliases);

/// A directory with a manifest: files by name. Opening it and all of its shards gives `code`.
struct DirectoryVector {
  std::string name;
  std::map<std::string, std::string> files;
  StatusCode code = StatusCode::kOk;
  std::string message_contains = {};
  /// Where opening gives kOk: a logical tensor, and what reading all of it gives.
  std::string tensor = {};
  StatusCode read_code = StatusCode::kOk;
};
/// Of the shards that are the vectors "pieces" and "pieces-rank1", their manifest, and "nothing".
Result<std::vector<DirectoryVector>> ValidDirectories(const std::string& pieces,
                                                      const std::string& pieces_rank1,
                                                      const std::string& manifest,
                                                      const std::string& nothing);
/// Broken variants of the first of them: manifest and shards say different things (rules S), or
/// what the shards hold together is no whole tensor.
Result<std::vector<DirectoryVector>> InvalidDirectories(const DirectoryVector& valid);

/// The first of ValidDirectories() with its manifest in two parts.
DirectoryVector ValidParts(const DirectoryVector& sharded);
/// Broken variants of that.
std::vector<DirectoryVector> InvalidParts(const DirectoryVector& sharded);
/// Manifests that say wrong things of their parts; `manifest` has none.
std::vector<InvalidVector> InvalidPartTables(const std::string& manifest);

/// A manifest of one shard of rank 0.
Result<std::string> ManifestOfOne(const std::string& shard, std::string_view name);

/// Broken variants of "pieces".
Result<std::vector<InvalidVector>> InvalidPieces(const std::string& pieces);

/// The content of the vector "frame": one tensor `t` of this many equal bytes, encoded.
inline constexpr size_t kFrameBytes = 512;
inline constexpr char kFrameByte = 'A';
/// Variants of "frame" with other zstd frames of the same content: those that readers take ...
std::vector<FutureVector> FrameVectors(const std::string& frame);
/// ... and those that do not decode.
std::vector<InvalidVector> InvalidFrames(const std::string& frame);

/// Writes valid/ and invalid/ below `directory`, each file with its JSON.
Status WriteVectors(const std::string& directory);

}  // namespace dsckpt::conformance

#endif  // DSCKPT_SPEC_CONFORMANCE_VECTORS_H_
