#include "run/manifest_file.h"

#include <algorithm>
#include <span>
#include <utility>

#include "format/manifest/trailer.h"
#include "io/directory.h"
#include "io/input_file.h"
#include "run/run_layout.h"

namespace dsckpt::run {
namespace {

Result<std::vector<std::byte>> ReadBytes(const std::string& path) {
  constexpr uint64_t kBeginBytes = 8;
  DSCKPT_ASSIGN_OR_RETURN(const auto input, io::InputFile::Open(path));
  const uint64_t size = input->size();
  std::vector<std::byte> begin(std::min(size, kBeginBytes));
  std::vector<std::byte> end(std::min(size, format::kManifestTrailerBytes));
  DSCKPT_RETURN_IF_ERROR(input->ReadAt(0, begin));
  DSCKPT_RETURN_IF_ERROR(input->ReadAt(size - end.size(), end));
  DSCKPT_RETURN_IF_ERROR(format::CheckManifestEnds(begin, end, size));
  std::vector<std::byte> bytes(size);
  DSCKPT_RETURN_IF_ERROR(input->ReadAt(0, bytes));
  return bytes;
}

Result<StoredManifest> Read(const std::string& path) {
  StoredManifest manifest;
  DSCKPT_ASSIGN_OR_RETURN(manifest.bytes, ReadBytes(path));
  DSCKPT_ASSIGN_OR_RETURN(manifest.view, format::ParseManifest(manifest.bytes));
  return manifest;
}

}  // namespace

std::string ManifestPath(const std::string& directory) {
  return directory + "/" + std::string(kManifestName);
}

Result<StoredManifest> ReadManifest(const std::string& directory) {
  const std::string path = ManifestPath(directory);
  auto manifest = Read(path);
  if (!manifest.ok()) return Status(manifest.status()).WithPath(path);
  return manifest;
}

std::optional<std::string> ReadLatest(const std::string& run) {
  constexpr uint64_t kMaxBytes = 4096;
  const auto bytes = io::ReadSmallFile(run + "/" + std::string(kLatestName), kMaxBytes);
  if (!bytes.ok()) return {};
  return ParseLatest({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
}

Status WriteLatest(const std::string& run, const std::string& name) {
  const std::string text = LatestText(name);
  return io::WriteSmallFile(run + "/" + std::string(kLatestName), std::as_bytes(std::span(text)));
}

}  // namespace dsckpt::run
