#include "run/manifest_file.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/text.h"
#include "format/manifest/parts.h"
#include "format/manifest/trailer.h"
#include "io/directory.h"
#include "io/input_file.h"
#include "run/run_layout.h"

namespace dsckpt::run {
namespace {

std::string PartPath(const std::string& directory, uint32_t part) {
  return directory + "/" + ManifestPartName(part);
}

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

Status OtherPart(const std::string& what, const std::string& expected, const std::string& found) {
  return Status(StatusCode::kMismatch, "this is not the part that the manifest describes: " + what +
                                           ": expected " + expected + ", found " + found +
                                           ": it belongs to another save; use another checkpoint");
}

Status CheckPart(const std::string& path, io::PathKind kind, uint64_t expected) {
  if (kind == io::PathKind::kNone) {
    return Status(StatusCode::kIncomplete,
                  "a part of the manifest is missing: use another checkpoint")
        .WithPath(path);
  }
  if (kind != io::PathKind::kFile) {
    return Status(StatusCode::kMismatch,
                  "the part of the manifest is a link or no regular file, which no writer makes: "
                  "not followed")
        .WithPath(path);
  }
  DSCKPT_ASSIGN_OR_RETURN(const uint64_t bytes, io::FileBytes(path));
  if (bytes == expected) return Status();
  return OtherPart("bytes", std::to_string(expected), std::to_string(bytes)).WithPath(path);
}

Status ReadPart(const std::string& path, uint32_t number, format::ManifestColumns& whole) {
  DSCKPT_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ReadBytes(path));
  const uint64_t sum = format::ManifestSum(bytes), expected = whole.part_xxh3_64[number];
  if (sum != expected) return OtherPart("checksum", Hex64(expected), Hex64(sum));
  DSCKPT_ASSIGN_OR_RETURN(const format::ManifestView part, format::ParseManifest(bytes));
  return format::AppendPart(part, number, whole);
}

Status UniteParts(const std::string& directory, StoredManifest& manifest) {
  DSCKPT_RETURN_IF_ERROR(CheckParts({directory}, manifest.view));
  auto whole = std::make_unique<format::ManifestColumns>(format::WithoutPieces(manifest.view));
  for (uint32_t i = 0; i < manifest.view.part_count(); ++i) {
    const std::string path = PartPath(directory, i);
    Status read = ReadPart(path, i, *whole);
    if (!read.ok()) return std::move(read).WithPath(path);
  }
  manifest.view = format::ViewOf(*whole);
  manifest.columns = std::move(whole);
  manifest.bytes = {};
  return Status();
}

}  // namespace

std::string ManifestPath(const std::string& directory) {
  return directory + "/" + std::string(kManifestName);
}

Result<StoredManifest> ReadManifestAlone(const std::string& directory) {
  const std::string path = ManifestPath(directory);
  auto manifest = Read(path);
  if (!manifest.ok()) return Status(manifest.status()).WithPath(path);
  return manifest;
}

Result<StoredManifest> ReadManifest(const std::string& directory) {
  auto manifest = ReadManifestAlone(directory);
  if (!manifest.ok() || manifest->view.part_count() == 0) return manifest;
  DSCKPT_RETURN_IF_ERROR(UniteParts(directory, *manifest));
  return manifest;
}

Status CheckParts(std::initializer_list<std::string> directories,
                  const format::ManifestView& manifest) {
  for (uint32_t i = 0; i < manifest.part_count(); ++i) {
    std::string path;
    io::PathKind kind = io::PathKind::kNone;
    for (const std::string& directory : directories) {
      path = PartPath(directory, i);
      DSCKPT_ASSIGN_OR_RETURN(kind, io::KindOf(path));
      if (kind != io::PathKind::kNone) break;
    }
    DSCKPT_RETURN_IF_ERROR(CheckPart(path, kind, manifest.part_file_bytes[i]));
  }
  return Status();
}

Result<uint32_t> WriteManifest(const std::string& directory,
                               const format::ManifestColumns& manifest, uint64_t max_bytes) {
  const auto write = [](const std::string& path, const format::ManifestColumns& columns,
                        auto&& look) -> Status {
    DSCKPT_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, format::EncodeManifest(columns));
    look(bytes);
    return io::WriteSmallFile(path, bytes);
  };
  DSCKPT_ASSIGN_OR_RETURN(const auto ranges, format::DivideManifest(manifest, max_bytes));
  const auto parts = static_cast<uint32_t>(ranges.size());
  if (parts == 0) {
    DSCKPT_RETURN_IF_ERROR(write(ManifestPath(directory), manifest, [](const auto&) {}));
    return parts;
  }
  format::ManifestColumns root = format::WithoutPieces(format::ViewOf(manifest));
  for (uint32_t i = 0; i < parts; ++i) {
    DSCKPT_RETURN_IF_ERROR(write(PartPath(directory, i), format::PartOf(manifest, ranges[i]),
                                 [&root](const std::vector<std::byte>& bytes) {
                                   root.part_file_bytes.push_back(bytes.size());
                                   root.part_xxh3_64.push_back(format::ManifestSum(bytes));
                                 }));
  }
  DSCKPT_RETURN_IF_ERROR(write(ManifestPath(directory), root, [](const auto&) {}));
  return parts;
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
