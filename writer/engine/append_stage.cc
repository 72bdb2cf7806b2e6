#include "writer/engine/append_stage.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/limits.h"
#include "format/checksum.h"
#include "format/codec.h"
#include "format/names.h"
#include "state/source_bytes.h"

namespace dsckpt {

struct AppendStage::Item {
  bool is_object;
  uint32_t ordinal;
  uint32_t described;  // Position in the description.
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

/// Memory and codec of one chunk in the making; used by one worker at a time.
struct AppendStage::Slot {
  std::vector<std::byte> raw;
  format::ChunkEncoder encoder;
  Hash128 sum;
  std::span<const std::byte> stored;  // `raw` itself when encoding did not shrink it.
  Status status;
  bool ready = false;
};

AppendStage::AppendStage(SaveHandle::Job& job, ImageWriter& out) : job_(job), out_(out) {}
AppendStage::~AppendStage() = default;

void AppendStage::Run() {
  const auto& layout = job_.layout;
  job_.WaitAtSaveLanded();
  for (size_t i = 0; i < layout.log.size() && !job_.stop; ++i) {
    const auto item = MakeItem(layout.log[i]);
    WriteItem(item, job_.log[i]);
    job_.MarkLogItemRead();
  }
}

AppendStage::Item AppendStage::MakeItem(const FileLayout::LogItem& log_item) const {
  const uint32_t ordinal = log_item.ordinal;
  if (log_item.is_object) {
    const uint32_t described = job_.layout.objects[ordinal];
    return {.is_object = true,
            .ordinal = ordinal,
            .described = described,
            .encoding = job_.data.objects[described].encoding,
            .element_bytes = 1,
            .raw_bytes = job_.data.object_sources[described].size,
            .at_save = true};
  }
  const uint32_t described = job_.layout.tensors[ordinal];
  const auto& tensor = job_.data.tensors[described];
  return {.is_object = false,
          .ordinal = ordinal,
          .described = described,
          .encoding = tensor.encoding,
          .element_bytes = ElementBytes(tensor.dtype),
          .raw_bytes = job_.layout.raw_bytes[ordinal],
          .at_save = job_.data.tensor_sources[described].capture == Capture::kAtSave};
}

void AppendStage::WriteItem(const Item& item, AppendedRecord& record) {
  out_.Align(kLogAlignment);
  record.offset = out_.position();
  record.raw_bytes = item.raw_bytes;
  if (item.is_object && job_.data.object_sources[item.described].write) {
    Status status = WriteCallback(item, record);
    if (!status.ok()) job_.Fail(std::move(status));
    job_.FinishCallback();
  } else if (item.encoding == Encoding::kRaw) {
    WriteRaw(item, record);
  } else {
    WriteEncoded(item, record);
  }
  record.stored_bytes = out_.position() - record.offset;
}

void AppendStage::Read(const Item& item, uint64_t begin, std::span<std::byte> out) {
  bool eager = false;
  if (item.is_object) {
    eager = job_.eager.TakeObject(item.ordinal, begin, out);
    const auto* bytes =
        static_cast<const std::byte*>(job_.data.object_sources[item.described].bytes);
    if (!eager) std::memcpy(out.data(), bytes + begin, out.size());
  } else {
    eager = job_.eager.TakeTensor(item.ordinal, begin, out);
    if (!eager && job_.data.tensor_sources[item.described].producer != 0) {
      Status status = job_.device->Read(item.described, begin, out);
      if (!status.ok()) job_.Fail(std::move(status));
    } else if (!eager) {
      Status status = ReadHostTensor(job_.data, item.described, begin, out);
      if (!status.ok()) job_.Fail(std::move(status));
    }
  }
  if (!eager) job_.AddCaptured(out.size(), item.at_save ? out.size() : 0);
}

void AppendStage::WriteRaw(const Item& item, AppendedRecord& record) {
  format::ChunkHasher hasher;
  for (uint64_t done = 0; done < item.raw_bytes && !job_.stop;) {
    const uint64_t chunk_end = std::min((done / kChunkBytes + 1) * kChunkBytes, item.raw_bytes);
    if (done % kChunkBytes == 0) hasher.Reset();
    auto room = out_.Room();
    room = room.first(std::min<uint64_t>(room.size(), chunk_end - done));
    Read(item, done, room);
    hasher.Update(room);
    done += room.size();
    if (done == chunk_end) record.sums.push_back(hasher.Digest());
    out_.Advance(room.size());
  }
}

void AppendStage::WriteEncoded(const Item& item, AppendedRecord& record) {
  std::mutex mutex;
  std::condition_variable changed;
  const uint64_t chunks = format::ChunkCount(item.raw_bytes);
  const uint64_t used =
      std::min<uint64_t>(chunks, static_cast<uint64_t>(job_.resources.workers->count()) + 1);
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
      DSCKPT_ASSIGN_OR_RETURN(slot.stored,
                              slot.encoder.Encode(item.encoding, item.element_bytes, raw));
      return Status();
    });
    job_.resources.counters.encode_ns += NanosecondsSince(start);
    std::lock_guard lock(mutex);
    slot.status = std::move(status);
    slot.ready = true;
    changed.notify_all();
  };
  const auto start = [&](uint64_t chunk) {
    Slot& slot = *slots[chunk % slots.size()];
    slot.ready = false;
    job_.resources.workers->Run([&encode, chunk, &slot] { encode(chunk, slot); });
  };

  for (uint64_t chunk = 0; chunk < slots.size(); ++chunk) start(chunk);
  for (uint64_t chunk = 0; chunk < chunks; ++chunk) {
    Slot& slot = *slots[chunk % slots.size()];
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return slot.ready; });
    }
    if (!slot.status.ok()) job_.Fail(slot.status);
    if (!job_.stop) {
      record.sums.push_back(slot.sum);
      AppendChunk(out_, record, slot.stored);
    }
    // A stopped save starts nothing new but waits for what runs: the tasks refer to this frame.
    if (chunk + slots.size() < chunks && !job_.stop) start(chunk + slots.size());
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
      if (stage_.job_.stop) return Status(StatusCode::kCancelled, "the save has stopped");
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
    DSCKPT_RETURN_IF_ERROR(job_.data.object_sources[item.described].write(sink));
    return sink.FinishChunk();
  });
  if (status.ok()) return sink.status();
  const std::string name = format::Printable(job_.data.object_names[item.described]);
  return Status(status.code(), "object '" + name + "': " + status.message()).WithPath(job_.path);
}

}  // namespace dsckpt
