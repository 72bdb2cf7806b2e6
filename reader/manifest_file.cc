#include <algorithm>
#include <span>

#include "format/manifest_trailer.h"
#include "io/input_file.h"
#include "reader/checkpoint_impl.h"

namespace dsckpt::reader {

Result<std::vector<std::byte>> ReadManifest(const std::string& path) {
  constexpr uint64_t kBeginBytes = 8;
  DSCKPT_ASSIGN_OR_RETURN(const auto input, io::InputFile::Open(path));
  const uint64_t size = input->size();
  std::vector<std::byte> begin(std::min(size, kBeginBytes));
  std::vector<std::byte> end(std::min(size, format::kManifestTrailerBytes));
  DSCKPT_RETURN_IF_ERROR(input->ReadAt(0, begin));
  DSCKPT_RETURN_IF_ERROR(input->ReadAt(size - end.size(), end));
  const Status looks_right = format::CheckManifestEnds(begin, end, size);
  if (!looks_right.ok()) return Status(looks_right).WithPath(path);
  std::vector<std::byte> bytes(size);
  DSCKPT_RETURN_IF_ERROR(input->ReadAt(0, bytes));
  return bytes;
}

}  // namespace dsckpt::reader
