#ifndef DSCKPT_WRITER_COMMIT_H_
#define DSCKPT_WRITER_COMMIT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dsckpt/encoding.h"
#include "dsckpt/limits.h"
#include "format/catalog.h"
#include "writer/job.h"

namespace dsckpt {

/// The index of a save: the catalog's columns completed by what the stages measured. `tensor_sums`:
/// by chunk, tensors in ordinal order; `log`: as catalog.log.
Result<std::vector<std::byte>> MakeIndex(const Description::Data& data,
                                         const format::Catalog& catalog,
                                         std::span<const Hash128> tensor_sums,
                                         std::span<const LogRecord> log);

/// Header region and footer once the index is known.
struct Closing {
  std::string header;
  std::array<std::byte, kFooterBytes> footer;
  uint64_t file_bytes;
};
Closing MakeClosing(const format::Catalog& catalog, std::span<const std::byte> index,
                    uint64_t index_offset);

/// Ends a save: waits for its stages, appends index and footer, writes the header region,
/// publishes. Runs on the commit thread, saves in the order of their Save() calls. Returns the
/// final status; the file is published or gone.
Status CommitSave(SaveHandle::Job& job);

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_COMMIT_H_
