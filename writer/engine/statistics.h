#ifndef DSCKPT_WRITER_ENGINE_STATISTICS_H_
#define DSCKPT_WRITER_ENGINE_STATISTICS_H_

// Statistics of a save's tensors, and hashes and statistics of chunks in one pass.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dsckpt/tensor_statistics.h"
#include "format/checksum.h"
#include "format/columns/columns.h"
#include "numerics/statistics.h"
#include "state/file_layout.h"
#include "writer/engine/resources.h"

namespace dsckpt {

/// The statistics of a save's chunks. Workers write those of different chunks at the same time.
class SaveStatistics {
 public:
  /// `wanted`: SaveOptions::statistics. Nothing is measured without. `data` and `layout` must
  /// outlive it.
  SaveStatistics(const Description::Data& data, const FileLayout& layout, bool wanted);

  /// The dtype as which a tensor's elements are counted; none when they are not.
  std::optional<DType> CountedAs(TensorOrdinal tensor) const;
  void Put(TensorOrdinal tensor, uint64_t chunk, const TensorStatistics& statistics);
  /// Measures a whole chunk of raw bytes, if it counts.
  void Measure(TensorOrdinal tensor, uint64_t chunk, std::span<const std::byte> raw);

  /// Frees what was measured; nothing else may be asked afterwards.
  void Clear() { chunks_ = {}; }

  /// The tensors that count, each from its chunks.
  format::StatisticsColumns Join() const;

 private:
  const Description::Data& data_;
  const FileLayout& layout_;
  std::vector<TensorStatistics> chunks_;  // As SaveOutputs::tensor_sums; none unless wanted.
  bool wanted_;
};

/// The hash, and where it counts the statistics, of a chunk that arrives in parts. Reusable.
class ChunkMeter {
 public:
  void Begin(std::optional<DType> counted);
  void Update(std::span<const std::byte> raw);
  Hash128 Digest() const { return hasher_.Digest(); }
  /// Null when the chunk does not count.
  const numerics::ChunkStatistics* statistics() const { return statistics_.get(); }

 private:
  format::ChunkHasher hasher_;
  std::unique_ptr<numerics::ChunkStatistics> statistics_;
};

/// Says by events which tensors of the save at `path` are not finite: the first ones by name, then
/// how many there are besides.
void ReportNotFinite(const format::StatisticsColumns& statistics, const FileLayout& layout,
                     const Description::Data& data, std::string_view path,
                     EngineResources& resources);

}  // namespace dsckpt

#endif  // DSCKPT_WRITER_ENGINE_STATISTICS_H_
