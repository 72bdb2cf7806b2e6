#include "writer/engine/append_stage.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "dsckpt/limits.h"
#include "format/checksum.h"
#include "format/codec.h"
#include "format/names.h"
#include "state/source_bytes.h"

namespace dsckpt {

struct AppendStage::Item {
  FileLayout::AppendedItem item;
  SourceIndex tensor;  // One of these, as item.is_object says.
  ObjectIndex object;
  Encoding encoding;
  uint32_t element_bytes;
  uint64_t raw_bytes;
  bool at_save;
};

namespace {

void AppendChunk(ImageWriter& out, AppendedRecord& record, std::span<const std::byte> stored) {
  out.Append(stored);
  record.stored_chunks.push_back({format::Hash64(stored), static_cast<uint32_t>(stored.size()), 0});
}

}  // namespace

/// Memory and codec of one chunk in the making; used by one worker at a time, and by the stage
/// after Await().
struct AppendStage::Slot {
  std::vector<std::byte> raw;
  format::ChunkEncoder encoder;
  Hash128 sum;
  std::span<const std::byte> stored;  // `raw` itself when encoding did not shrink it.

  void Finish(Status status) {
    MutexLock lock(mutex_);
    outcome_ = std::move(status);
    finished_.NotifyAll();
  }
  /// Blocks until the worker has finished; returns its outcome, once.
  Status Await() {
    MutexLock lock(mutex_);
    while (!outcome_) finished_.Wait(lock);
    return *std::exchange(outcome_, std::nullopt);
  }

 private:
  Mutex mutex_;
  CondVar finished_;
  std::optional<Status> outcome_ DSCKPT_GUARDED_BY(mutex_);
};

AppendStage::AppendStage(const SavePlan& plan, SaveSources& sources, SaveOutputs& outputs,
                         SaveProgress& progress, EngineResources& resources)
    : plan_(plan),
      sources_(sources),
      outputs_(outputs),
      progress_(progress),
      resources_(resources),
      out_(*outputs.append_writer) {}
AppendStage::~AppendStage() = default;

void AppendStage::Run() {
  const auto& layout = plan_.layout;
  progress_.AwaitAtSaveCopied();
  for (size_t i = 0; i < layout.appended.size() && !progress_.stopped(); ++i) {
    const auto item = MakeItem(layout.appended[i]);
    WriteItem(item, outputs_.appended[i]);
    progress_.AppendedItemRead();
  }
}

AppendStage::Item AppendStage::MakeItem(const FileLayout::AppendedItem& appended) const {
  if (appended.is_object) {
    const ObjectIndex object = plan_.layout.objects[appended.object];
    return {.item = appended,
            .tensor = {},
            .object = object,
            .encoding = plan_.data.identity.objects[object].encoding,
            .element_bytes = 1,
            .raw_bytes = plan_.data.sources.objects[object].size,
            .at_save = true};
  }
  const SourceIndex tensor = plan_.layout.tensors[appended.tensor];
  const auto& identity = plan_.data.identity.tensors[tensor];
  return {.item = appended,
          .tensor = tensor,
          .object = {},
          .encoding = identity.encoding,
          .element_bytes = ElementBytes(identity.dtype),
          .raw_bytes = plan_.layout.raw_bytes[appended.tensor],
          .at_save = plan_.data.sources.tensors[tensor].capture == Capture::kAtSave};
}

void AppendStage::WriteItem(const Item& item, AppendedRecord& record) {
  out_.Align(kLogAlignment);
  record.offset = out_.position();
  record.raw_bytes = item.raw_bytes;
  if (item.item.is_object && plan_.data.sources.objects[item.object].write) {
    Status status = WriteCallback(item, record);
    if (!status.ok()) progress_.Fail(std::move(status));
    progress_.CallbackReturned();
  } else if (item.encoding == Encoding::kRaw) {
    WriteRaw(item, record);
  } else {
    WriteEncoded(item, record);
  }
  record.stored_bytes = out_.position() - record.offset;
}

void AppendStage::Read(const Item& item, uint64_t begin, std::span<std::byte> out) {
  bool copied = false;
  if (item.item.is_object) {
    copied = sources_.at_save.TakeObject(item.item.object, begin, out);
    const auto* bytes =
        static_cast<const std::byte*>(plan_.data.sources.objects[item.object].bytes);
    if (!copied) std::memcpy(out.data(), bytes + begin, out.size());
  } else {
    copied = sources_.at_save.TakeTensor(item.item.tensor, begin, out);
    if (!copied && plan_.data.sources.tensors[item.tensor].producer) {
      Status status = sources_.device->Read(item.tensor, begin, out);
      if (!status.ok()) progress_.Fail(std::move(status));
    } else if (!copied) {
      Status status = ReadHostTensor(plan_.data, item.tensor, begin, out);
      if (!status.ok()) progress_.Fail(std::move(status));
    }
  }
  if (!copied) progress_.Captured(out.size(), item.at_save ? out.size() : 0);
}

void AppendStage::WriteRaw(const Item& item, AppendedRecord& record) {
  const auto counted =
      item.item.is_object ? std::nullopt : outputs_.statistics.CountedAs(item.item.tensor);
  ChunkMeter meter;
  for (uint64_t done = 0; done < item.raw_bytes && !progress_.stopped();) {
    const uint64_t chunk = done / kChunkBytes;
    const uint64_t chunk_end = std::min((chunk + 1) * kChunkBytes, item.raw_bytes);
    if (done % kChunkBytes == 0) meter.Begin(counted);
    auto room = out_.Room();
    room = room.first(std::min<uint64_t>(room.size(), chunk_end - done));
    Read(item, done, room);
    meter.Update(room);
    done += room.size();
    if (done == chunk_end) {
      record.sums.push_back(meter.Digest());
      if (counted) outputs_.statistics.Put(item.item.tensor, chunk, meter.statistics()->Finish());
    }
    out_.Advance(room.size());
  }
}

void AppendStage::WriteEncoded(const Item& item, AppendedRecord& record) {
  const uint64_t chunks = format::ChunkCount(item.raw_bytes);
  const uint64_t used =
      std::min<uint64_t>(chunks, static_cast<uint64_t>(resources_.workers->count()) + 1);
  while (slots_.size() < used) slots_.push_back(std::make_unique<Slot>());
  const auto slots = std::span(slots_).first(used);

  const auto encode = [&](uint64_t chunk, Slot& slot) {
    const auto start = Clock::now();
    Status status = Guarded([&]() -> Status {
      const uint64_t bytes = std::min(kChunkBytes, item.raw_bytes - chunk * kChunkBytes);
      if (slot.raw.size() < bytes) slot.raw.resize(bytes);
      const auto raw = std::span(slot.raw).first(bytes);
      Read(item, chunk * kChunkBytes, raw);
      slot.sum = format::HashChunk(raw);
      if (!item.item.is_object) outputs_.statistics.Measure(item.item.tensor, chunk, raw);
      DSCKPT_ASSIGN_OR_RETURN(slot.stored,
                              slot.encoder.Encode(item.encoding, item.element_bytes, raw));
      return Status();
    });
    resources_.counters.encode_ns += NanosecondsSince(start);
    slot.Finish(std::move(status));
  };
  uint64_t started = 0;
  const auto start_next = [&] {
    const uint64_t chunk = started++;
    Slot& slot = *slots[chunk % slots.size()];
    resources_.workers->Run([&encode, chunk, &slot] { encode(chunk, slot); });
  };

  while (started < slots.size()) start_next();
  // A stopped save starts nothing new but waits for what runs: the tasks refer to this frame.
  for (uint64_t chunk = 0; chunk < started; ++chunk) {
    Slot& slot = *slots[chunk % slots.size()];
    if (Status status = slot.Await(); !status.ok()) progress_.Fail(std::move(status));
    if (!progress_.stopped()) {
      record.sums.push_back(slot.sum);
      AppendChunk(out_, record, slot.stored);
    }
    if (started < chunks && !progress_.stopped()) start_next();
  }
}

/// Cuts what a `write` callback produces into chunks.
class AppendStage::CallbackSink final : public Sink {
 public:
  CallbackSink(AppendStage& stage, const Item& item, AppendedRecord& record)
      : stage_(stage),
        item_(item),
        record_(record),
        buffer_(item.encoding == Encoding::kRaw ? 0 : kChunkBytes) {}

  Status Write(std::span<const std::byte> bytes) override {
    // Kept, because the callback may ignore it.
    if (status_.ok()) status_ = Take(bytes);
    return status_;
  }
  const Status& status() const { return status_; }

  Status Take(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      if (stage_.progress_.stopped()) return Status(StatusCode::kCancelled, "the save has stopped");
      const uint64_t part = std::min<uint64_t>(kChunkBytes - filled_, bytes.size());
      if (filled_ == 0) hasher_.Reset();
      hasher_.Update(bytes.first(part));
      if (buffer_.empty()) {
        stage_.out_.Append(bytes.first(part));
      } else {
        std::memcpy(buffer_.data() + filled_, bytes.data(), part);
      }
      filled_ += part;
      record_.raw_bytes += part;
      bytes = bytes.subspan(part);
      if (filled_ == kChunkBytes) DSCKPT_RETURN_IF_ERROR(FinishChunk());
    }
    return Status();
  }

  Status FinishChunk() {
    if (filled_ == 0) return Status();
    if (!buffer_.empty()) {
      DSCKPT_ASSIGN_OR_RETURN(
          const auto stored,
          encoder_.Encode(item_.encoding, item_.element_bytes, std::span(buffer_).first(filled_)));
      AppendChunk(stage_.out_, record_, stored);
    }
    record_.sums.push_back(hasher_.Digest());
    filled_ = 0;
    return Status();
  }

 private:
  AppendStage& stage_;
  const Item& item_;
  AppendedRecord& record_;
  std::vector<std::byte> buffer_;  // Encoded objects gather a chunk first.
  uint64_t filled_ = 0;
  Status status_;
  format::ChunkHasher hasher_;
  format::ChunkEncoder encoder_;
};

Status AppendStage::WriteCallback(const Item& item, AppendedRecord& record) {
  CallbackSink sink(*this, item, record);
  const Status status = Guarded([&]() -> Status {
    DSCKPT_RETURN_IF_ERROR(plan_.data.sources.objects[item.object].write(sink));
    return sink.FinishChunk();
  });
  if (status.ok()) return sink.status();
  const std::string name = format::Printable(plan_.data.identity.ObjectName(item.object));
  return Status(status.code(), "object '" + name + "': " + status.message()).WithPath(plan_.path);
}

}  // namespace dsckpt
