#ifndef DSCKPT_READER_CHUNK_READER_H_
#define DSCKPT_READER_CHUNK_READER_H_

// Checking and decoding chunks.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "dsckpt/status.h"
#include "format/checksum.h"
#include "format/codec.h"
#include "io/input_file.h"
#include "reader/chunk/stored_item.h"
#include "state/strided.h"

namespace dsckpt::reader {

class DeviceLoad;

/// What one thread needs to check and decode chunks.
struct Scratch {
  format::ChunkHasher hasher;
  std::optional<format::ChunkDecoder> decoder;
  std::vector<std::byte> chunk;

  format::ChunkDecoder& Decoder() {
    if (!decoder) decoder.emplace();
    return *decoder;
  }
};

/// Hands scratch to whatever thread runs a consumer, and frees all of it when the operation ends:
/// thread-local scratch would stay behind on the caller's thread. Thread-safe.
class ScratchPool {
 public:
  /// Gives its scratch back on destruction.
  class Lease {
   public:
    explicit Lease(ScratchPool& pool);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Scratch& operator*() { return *scratch_; }

   private:
    ScratchPool& pool_;
    std::unique_ptr<Scratch> scratch_;
  };

 private:
  Mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> free_ DSCKPT_GUARDED_BY(mutex_);
};

/// One chunk of one item to be read; `item` means something to the caller.
struct ChunkRef {
  uint32_t item = 0;
  uint32_t chunk = 0;
};

/// Reads to be done, in file order: spans[i] holds the stored bytes of chunks[i].
struct ChunkPlan {
  std::vector<io::ReadSpan> spans;
  std::vector<ChunkRef> chunks;

  /// All chunks of `stored`, under the caller's number `item`.
  void Append(const StoredItem& stored, uint32_t item);
};

/// Runs the plan: in parallel, or on this thread when it is small. `devices`, where any take part,
/// gets the read buffers to register.
using ChunkConsumer = std::function<Status(ChunkRef, std::span<const std::byte> stored)>;
Status ReadChunks(const io::InputFile& input, const ChunkPlan& plan, int threads,
                  const ChunkConsumer& consume, DeviceLoad* devices = nullptr);

/// Where an item's elements go: contiguous at `data`, or strided.
struct Destination {
  std::byte* data = nullptr;
  std::optional<StridedView> strided = {};
};

/// Offset in the file of chunk `chunk`; linear in `chunk` for encoded items.
uint64_t ChunkOffset(const StoredItem& item, uint64_t chunk);

/// Checks chunk `chunk`, read as `stored`, decodes it where needed and puts it in its place in
/// `to`. Stored sums of encoded chunks are always checked, raw sums when `verify`.
Status PlaceChunk(const StoredItem& item, uint64_t chunk, std::span<const std::byte> stored,
                  const Destination& to, bool verify, Scratch& scratch);

/// Chunk `chunk` as raw, checked bytes: `stored` itself where raw, else in `scratch`.
Result<std::span<const std::byte>> RawChunk(const StoredItem& item, uint64_t chunk,
                                            std::span<const std::byte> stored, bool verify,
                                            Scratch& scratch);

/// Reads a whole item into `out` (item.raw_bytes), everything checked.
Status ReadItem(const io::InputFile& input, const StoredItem& item, std::span<std::byte> out,
                int threads);

}  // namespace dsckpt::reader

#endif  // DSCKPT_READER_CHUNK_READER_H_
