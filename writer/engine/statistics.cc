#include "writer/engine/statistics.h"

#include <string>
#include <utility>

#include "dsckpt/limits.h"
#include "format/names.h"

namespace dsckpt {
namespace {

/// So many tensors are named; a state that has diverged may have thousands.
constexpr size_t kNamedTensors = 20;

/// 4194304 as "4,194,304".
std::string Grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

}  // namespace

SaveStatistics::SaveStatistics(const Description::Data& data, const FileLayout& layout, bool wanted)
    : data_(data), layout_(layout), wanted_(wanted) {
  const auto& ends = layout.columns.tensors.chunk_end;
  if (wanted && !ends.empty()) chunks_.resize(ends.back());
}

std::optional<DType> SaveStatistics::CountedAs(TensorOrdinal tensor) const {
  if (!wanted_) return std::nullopt;
  const DType dtype = data_.identity.tensors[layout_.tensors[tensor]].dtype;
  return numerics::HasStatistics(dtype) ? std::optional(dtype) : std::nullopt;
}

void SaveStatistics::Put(TensorOrdinal tensor, uint64_t chunk, const TensorStatistics& statistics) {
  chunks_[layout_.FirstSum(tensor) + chunk] = statistics;
}

void SaveStatistics::Measure(TensorOrdinal tensor, uint64_t chunk, std::span<const std::byte> raw) {
  const auto counted = CountedAs(tensor);
  if (!counted) return;
  numerics::ChunkStatistics statistics(*counted);
  statistics.Add(raw);
  Put(tensor, chunk, statistics.Finish());
}

format::StatisticsColumns SaveStatistics::Join() const {
  format::StatisticsColumns columns;
  for (const TensorOrdinal tensor : PositionsOf(layout_.tensors)) {
    if (!CountedAs(tensor)) continue;
    const auto chunks = std::span(chunks_).subspan(layout_.FirstSum(tensor),
                                                   format::ChunkCount(layout_.raw_bytes[tensor]));
    const TensorStatistics joined = numerics::JoinChunks(chunks);
    columns.tensor.push_back(tensor.value());
    columns.nan.push_back(joined.nan);
    columns.inf.push_back(joined.inf);
    columns.zero.push_back(joined.zero);
    columns.min.push_back(joined.min);
    columns.max.push_back(joined.max);
    columns.sum.push_back(joined.sum);
    columns.sum_squares.push_back(joined.sum_squares);
  }
  return columns;
}

void ChunkMeter::Begin(std::optional<DType> counted) {
  hasher_.Reset();
  statistics_ = counted ? std::make_unique<numerics::ChunkStatistics>(*counted) : nullptr;
}

void ChunkMeter::Update(std::span<const std::byte> raw) {
  hasher_.Update(raw);
  if (statistics_ != nullptr) statistics_->Add(raw);
}

void ReportNotFinite(const format::StatisticsColumns& statistics, const FileLayout& layout,
                     const Description::Data& data, std::string_view path,
                     EngineResources& resources) {
  const auto emit = [&](std::string message) {
    resources.Emit(Event::Kind::kNotFinite,
                   Status(StatusCode::kInvalidArgument, std::move(message)).WithPath(path));
  };
  size_t found = 0;
  for (size_t i = 0; i < statistics.tensor.size(); ++i) {
    const uint64_t nan = statistics.nan[i], inf = statistics.inf[i];
    if (nan == 0 && inf == 0) continue;
    if (++found > kNamedTensors) continue;
    const TensorOrdinal tensor(statistics.tensor[i]);
    const SourceIndex source = layout.tensors[tensor];
    const uint64_t element_bytes = FindDType(data.identity.tensors[source].dtype)->block_bytes;
    emit("tensor '" + format::Printable(data.identity.TensorName(source)) + "': " + Grouped(nan) +
         " NaN, " + Grouped(inf) + " Inf of " + Grouped(layout.raw_bytes[tensor] / element_bytes) +
         " elements");
  }
  if (found > kNamedTensors) {
    emit(Grouped(found - kNamedTensors) + " more tensors have NaN or Inf: inspect the file");
  }
}

}  // namespace dsckpt
