#include "writer/engine/finish.h"

#include <algorithm>
#include <utility>

#include "format/checksum.h"
#include "format/footer/footer.h"
#include "format/header/header.h"
#include "format/index/content.h"
#include "writer/engine/image_writer.h"
#include "writer/engine/placed_image.h"

namespace dsckpt {
namespace {

/// Puts the measurements of appended items where the index wants them: by ordinal, tensors and
/// objects apart.
void FillAppended(const FileLayout& layout, std::span<const AppendedRecord> appended,
                  std::span<const Hash128> tensor_sums, format::IndexColumns& columns) {
  OrdinalVector<TensorOrdinal, const AppendedRecord*> tensor_records(layout.tensors.size());
  OrdinalVector<ObjectOrdinal, const AppendedRecord*> object_records(layout.objects.size());
  for (size_t i = 0; i < appended.size(); ++i) {
    const FileLayout::AppendedItem& item = layout.appended[i];
    (item.is_object ? object_records[item.object] : tensor_records[item.tensor]) = &appended[i];
  }

  auto& tensors = columns.tensors;
  auto& sums = columns.chunk_sums;
  auto& chunks = columns.stored_chunks;
  sums.assign(tensor_sums.begin(), tensor_sums.end());
  tensors.stored_chunk_end.resize(layout.tensors.size());
  for (const TensorOrdinal ordinal : PositionsOf(layout.tensors)) {
    const uint32_t i = ordinal.value();
    if (const AppendedRecord* record = tensor_records[ordinal]; record != nullptr) {
      tensors.offset[i] = record->offset;
      tensors.stored_bytes[i] = record->stored_bytes;
      std::copy(record->sums.begin(), record->sums.end(), sums.begin() + layout.FirstSum(ordinal));
      chunks.insert(chunks.end(), record->stored_chunks.begin(), record->stored_chunks.end());
    }
    tensors.stored_chunk_end[i] = static_cast<uint32_t>(chunks.size());
  }

  auto& objects = columns.objects;
  objects.offset.clear();
  objects.raw_bytes.clear();
  objects.stored_bytes.clear();
  objects.chunk_end.clear();
  objects.stored_chunk_end.clear();
  for (const AppendedRecord* record : object_records) {
    objects.offset.push_back(record->offset);
    objects.raw_bytes.push_back(record->raw_bytes);
    objects.stored_bytes.push_back(record->stored_bytes);
    sums.insert(sums.end(), record->sums.begin(), record->sums.end());
    objects.chunk_end.push_back(static_cast<uint32_t>(sums.size()));
    chunks.insert(chunks.end(), record->stored_chunks.begin(), record->stored_chunks.end());
    objects.stored_chunk_end.push_back(static_cast<uint32_t>(chunks.size()));
  }
}

std::vector<format::VendorEntry> VendorEntries(const SaveOptions& options) {
  std::vector<format::VendorEntry> entries;
  for (const auto& [name, data] : options.vendor) entries.push_back({name, data});
  std::ranges::sort(entries, {}, &format::VendorEntry::name);
  return entries;
}

/// Writes what precedes the placed image, once all else is written: until then the file begins with
/// zeros, which no reader opens.
void WriteHeader(std::span<const std::byte> header, SaveOutputs& outputs, SaveProgress& progress,
                 EngineResources& resources) {
  ImageWriter out(outputs, progress, resources, io::WindowPool::Use::kPlaced, 0);
  out.Append(header);
  out.Flush();
}

/// A shard's index and footer, then its header.
Status WriteEnds(const SavePlan& plan, SaveOutputs& outputs, SaveProgress& progress,
                 EngineResources& resources) {
  if (!plan.layout.shard) {
    WriteHeader(HeaderBeforeImage(plan.layout), outputs, progress, resources);
    progress.counters().total_bytes = plan.layout.placed_end;
    return Status();
  }
  format::StatisticsColumns statistics = outputs.statistics.Join();
  ReportNotFinite(statistics, plan.layout, plan.data, plan.path, resources);
  DSCKPT_ASSIGN_OR_RETURN(const auto index,
                          MakeIndex(plan.data, plan.layout, outputs.tensor_sums, outputs.appended,
                                    std::move(statistics), plan.options));
  ImageWriter& out = *outputs.append_writer;
  out.Align(kLogAlignment);
  const Closing closing = MakeClosing(plan.layout, index, out.position());
  progress.counters().total_bytes = closing.file_bytes;
  out.Append(index);
  out.Append(closing.footer);
  out.Flush();
  WriteHeader(std::as_bytes(std::span(closing.header)), outputs, progress, resources);
  return Status();
}

}  // namespace

Result<std::vector<std::byte>> MakeIndex(const Description::Data& data, const FileLayout& layout,
                                         std::span<const Hash128> tensor_sums,
                                         std::span<const AppendedRecord> appended,
                                         format::StatisticsColumns statistics,
                                         const SaveOptions& options) {
  format::IndexColumns columns = layout.columns;
  FillAppended(layout, appended, tensor_sums, columns);
  columns.tree = ResolveTree(data, layout);
  columns.attributes = data.attributes;
  columns.annotations.content = format::ContentDigest(format::ViewOf(columns));
  columns.annotations.statistics = std::move(statistics);
  columns.annotations.vendor = VendorEntries(options);
  return format::EncodeIndex(columns);
}

Closing MakeClosing(const FileLayout& layout, std::span<const std::byte> index,
                    uint64_t index_offset) {
  Closing closing;
  closing.header = layout.header.region;
  closing.file_bytes = index_offset + index.size() + kFooterBytes;
  const uint64_t tail_entry_begin =
      layout.header.lists_tensors ? layout.tail_begin : layout.data_begin;
  format::PatchSizes(closing.header, tail_entry_begin, closing.file_bytes);
  format::Footer footer;
  footer.file_bytes = closing.file_bytes;
  footer.data_begin = layout.data_begin;
  footer.tail_begin = layout.tail_begin;
  footer.index_offset = index_offset;
  footer.index_bytes = index.size();
  footer.index_xxh3_64 = format::Hash64(index);
  footer.header_xxh3_64 = format::Hash64(std::as_bytes(std::span(closing.header)));
  closing.footer = format::EncodeFooter(footer);
  return closing;
}

Status CommitSave(const SavePlan& plan, SaveOutputs& outputs, SaveProgress& progress,
                  EngineResources& resources) {
  progress.AwaitStagesIdle();
  progress.RunGuarded([&] { return WriteEnds(plan, outputs, progress, resources); });
  progress.AwaitStagesIdle();
  if (plan.options.before_publish) progress.RunGuarded(plan.options.before_publish);
  if (!progress.BeginPublishing()) {
    outputs.file.reset();  // Before anybody hears of the failure: the temporary is gone by then.
    return progress.status();
  }
  return outputs.file->Publish(progress.counters().total_bytes);
}

}  // namespace dsckpt
