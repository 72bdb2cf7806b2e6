#include "tests/writer/device/fake_device.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "io/device.h"

using namespace dsckpt;

namespace {

/// A stream: what it holds runs in order on its own thread, whatever other streams do.
class FakeStream {
 public:
  FakeStream() : thread_([this] { Work(); }) {}
  ~FakeStream() {
    {
      std::lock_guard lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  uint64_t Push(std::function<void()> work) {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    changed_.notify_all();
    return ++pushed_;
  }
  void WaitFor(uint64_t position) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= position; });
  }
  uint64_t end() {
    std::lock_guard lock(mutex_);
    return pushed_;
  }

 private:
  void Work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return closing_ || !queue_.empty(); });
      if (queue_.empty()) return;
      auto work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      work();
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  uint64_t pushed_ = 0, done_ = 0;
  bool closing_ = false;
  std::thread thread_;
};

struct FakeEvent {
  std::mutex mutex;
  FakeStream* stream = nullptr;
  uint64_t position = 0;

  void WaitHost() {
    FakeStream* on = nullptr;
    uint64_t until = 0;
    {
      std::lock_guard lock(mutex);
      on = stream;
      until = position;
    }
    if (on != nullptr) on->WaitFor(until);
  }
};

/// Two devices whose memory is the host's.
class FakeDevices final : public io::DeviceBackend {
 public:
  const char* name() const override { return "simulated"; }

  Result<int> DeviceOf(const void* data) override {
    std::lock_guard lock(mutex_);
    for (const auto& [begin, block] : blocks_) {
      if (data >= begin && data < begin + block.bytes) return block.device;
    }
    return Status(StatusCode::kInvalidArgument, "the pointer is not to device memory");
  }
  Status RegisterHost(int, std::span<std::byte> memory) override {
    if (refuse_registration) return Status(StatusCode::kOutOfMemory, "no registration");
    std::lock_guard lock(mutex_);
    registered.push_back(memory);
    return Status();
  }
  void UnregisterHost(int, std::span<std::byte>) override {}
  Result<Stream> CreateStream(int, bool) override {
    auto stream = std::make_shared<FakeStream>();
    std::lock_guard lock(mutex_);
    streams_.insert(stream);
    return static_cast<Stream>(stream.get());
  }
  void DestroyStream(int, Stream stream) override {
    std::shared_ptr<FakeStream> ended;  // Joined when the lock is gone.
    std::lock_guard lock(mutex_);
    const auto same = [&](const auto& each) { return each.get() == stream; };
    const auto found = std::find_if(streams_.begin(), streams_.end(), same);
    ended = *found;
    streams_.erase(found);
  }
  Result<Event> CreateEvent(int) override {
    DSCKPT_RETURN_IF_ERROR(Step());
    return static_cast<Event>(new FakeEvent);
  }
  void DestroyEvent(int, Event event) override { delete static_cast<FakeEvent*>(event); }
  Status Record(int device, Event event, Stream stream) override {
    DSCKPT_RETURN_IF_ERROR(Step());
    auto* const e = static_cast<FakeEvent*>(event);
    FakeStream& on = Of(device, stream);
    std::lock_guard lock(e->mutex);
    e->stream = &on;
    e->position = on.end();
    return Status();
  }
  Status Wait(int device, Stream stream, Event event) override {
    DSCKPT_RETURN_IF_ERROR(Step());
    // As on a device: what counts is the record at the time of this call.
    auto* const e = static_cast<FakeEvent*>(event);
    FakeStream* on = nullptr;
    uint64_t position = 0;
    {
      std::lock_guard lock(e->mutex);
      on = e->stream;
      position = e->position;
    }
    if (on != nullptr) {
      Of(device, stream).Push([on, position] { on->WaitFor(position); });
    }
    return Status();
  }
  Status Synchronize(int, Event event) override {
    DSCKPT_RETURN_IF_ERROR(Step());
    if (on_host_wait) on_host_wait();
    static_cast<FakeEvent*>(event)->WaitHost();
    return Status();
  }
  Status Drain(int device, Stream stream) override {
    if (on_host_wait) on_host_wait();
    FakeStream& on = Of(device, stream);
    on.WaitFor(on.end());
    return Status();
  }
  Status CheckNotCapturing(int, Stream stream) override {
    std::lock_guard lock(mutex_);
    if (capturing.count(stream) == 0) return Status();
    return Status(StatusCode::kFailedPrecondition, "a graph is being captured");
  }
  Status CopyToHost(int device, Stream stream, std::span<std::byte> to, const void* from) override {
    if (fail_copies) return Status(StatusCode::kIoError, "simulated failure of a copy");
    DSCKPT_RETURN_IF_ERROR(Step());
    PushCopy(device, stream, {{from, to.data(), to.size()}});
    // As on a device.
    if (!IsRegistered(to)) static_cast<void>(Drain(device, stream));
    return Status();
  }
  Status CopyToDevice(int device, Stream stream, void* to,
                      std::span<const std::byte> from) override {
    DSCKPT_RETURN_IF_ERROR(Step());
    PushCopy(device, stream, {{from.data(), static_cast<std::byte*>(to), from.size()}});
    return Status();
  }
  Status CopyAllToHost(int device, Stream stream, std::span<const Piece> pieces) override {
    for (const Piece& piece : pieces) {
      DSCKPT_RETURN_IF_ERROR(CopyToHost(device, stream, {piece.to, piece.bytes}, piece.from));
    }
    return Status();
  }
  Status Gather(int device, Stream stream, std::span<const Piece> pieces) override {
    DSCKPT_RETURN_IF_ERROR(Step());
    ++gathers;
    PushCopy(device, stream, {pieces.begin(), pieces.end()});
    return Status();
  }

  FakeStream& Of(int device, Stream stream) {
    if (stream != nullptr) return *static_cast<FakeStream*>(stream);
    std::lock_guard lock(mutex_);
    auto& slot = defaults_[device];
    if (slot == nullptr) {
      slot = std::make_shared<FakeStream>();
      streams_.insert(slot);
    }
    return *slot;
  }
  Result<std::byte*> Allocate(int device, uint64_t bytes) override {
    if (refuse_memory) return Status(StatusCode::kOutOfMemory, "no device memory");
    return static_cast<std::byte*>(Give(device, bytes));
  }
  void Free(int, std::byte* memory) override { Take(memory); }
  Status CopyAllOnDevice(int device, Stream stream, std::span<const Piece> pieces) override {
    DSCKPT_RETURN_IF_ERROR(Step());
    ++copies_in_flight;
    Of(device, stream).Push([this, all = std::vector<Piece>(pieces.begin(), pieces.end())] {
      for (const Piece& piece : all) std::memcpy(piece.to, piece.from, piece.bytes);
      --copies_in_flight;
    });
    return Status();
  }
  void* Give(int device, size_t bytes) {
    auto* const memory = new std::byte[bytes];
    std::lock_guard lock(mutex_);
    blocks_[memory] = {device, bytes};
    return memory;
  }
  /// As on a device, waits for all that its streams hold: some of it may use the memory.
  void Take(void* memory) {
    std::set<std::shared_ptr<FakeStream>> streams;
    {
      std::lock_guard lock(mutex_);
      blocks_.erase(static_cast<std::byte*>(memory));
      streams = streams_;
    }
    for (const auto& stream : streams) stream->WaitFor(stream->end());
    delete[] static_cast<std::byte*>(memory);
  }

  std::atomic<bool> refuse_registration{false}, refuse_memory{false}, fail_copies{false};
  std::atomic<int> gathers{0}, copies{0}, copies_in_flight{0};
  static constexpr int kNone = std::numeric_limits<int>::max();
  std::atomic<int> held_from{kNone};
  std::vector<std::span<std::byte>> registered;
  std::atomic<int> calls{0}, fail_from{-1};
  std::function<void()> on_host_wait;
  std::set<Stream> capturing;

 private:
  struct Range {
    int device;
    size_t bytes;
  };
  Status Step() {
    const int call = calls++;
    if (fail_from < 0 || call < fail_from) return Status();
    return Status(StatusCode::kIoError, "simulated failure");
  }
  bool IsRegistered(std::span<const std::byte> memory) {
    std::lock_guard lock(mutex_);
    return std::any_of(registered.begin(), registered.end(), [&](const auto& range) {
      return range.data() <= memory.data() &&
             memory.data() + memory.size() <= range.data() + range.size();
    });
  }
  void PushCopy(int device, Stream stream, std::vector<Piece> pieces) {
    ++copies_in_flight;
    const int number = copies.fetch_add(static_cast<int>(pieces.size()));
    Of(device, stream).Push([this, number, pieces = std::move(pieces)] {
      for (int held; (held = held_from) <= number;) held_from.wait(held);
      for (const Piece& piece : pieces) std::memcpy(piece.to, piece.from, piece.bytes);
      --copies_in_flight;
    });
  }
  std::mutex mutex_;
  std::map<std::byte*, Range> blocks_;
  std::map<int, std::shared_ptr<FakeStream>> defaults_;
  std::set<std::shared_ptr<FakeStream>> streams_;
};

}  // namespace

struct FakeRig::Impl {
  FakeDevices devices;
};

FakeRig::FakeRig() : impl_(std::make_unique<Impl>()) { io::ReplaceDevices(&impl_->devices); }
FakeRig::~FakeRig() { io::ReplaceDevices(nullptr); }
void* FakeRig::Allocate(int device, size_t bytes) { return impl_->devices.Give(device, bytes); }
void FakeRig::Free(int, void* memory) { impl_->devices.Take(memory); }
Stream FakeRig::NewStream(int device) { return impl_->devices.CreateStream(device, false).value(); }
void FakeRig::DeleteStream(int device, Stream stream) {
  impl_->devices.DestroyStream(device, stream);
}
void FakeRig::FillLater(int device, Stream stream, void* memory, size_t bytes, uint8_t value) {
  impl_->devices.Of(device, stream).Push([=] { std::memset(memory, value, bytes); });
}
std::function<void()> FakeRig::Hold(int device, Stream stream) {
  struct Gate {
    std::mutex mutex;
    std::condition_variable opened;
    bool open = false;
  };
  auto gate = std::make_shared<Gate>();
  impl_->devices.Of(device, stream).Push([gate] {
    std::unique_lock lock(gate->mutex);
    gate->opened.wait(lock, [&] { return gate->open; });
  });
  return [gate] {
    std::lock_guard lock(gate->mutex);
    gate->open = true;
    gate->opened.notify_all();
  };
}
void FakeRig::Synchronize(int device, Stream stream) {
  FakeStream& on = impl_->devices.Of(device, stream);
  on.WaitFor(on.end());
}
void FakeRig::Upload(int, void* to, std::span<const std::byte> from) {
  std::memcpy(to, from.data(), from.size());
}
std::vector<std::byte> FakeRig::Download(int, const void* from, size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(from);
  return {begin, begin + bytes};
}
void FakeRig::RefuseRegistration() { impl_->devices.refuse_registration = true; }
void FakeRig::RefuseMemory() { impl_->devices.refuse_memory = true; }
void FakeRig::FailCopies(bool fail) { impl_->devices.fail_copies = fail; }
void FakeRig::SetCapturing(Stream stream, bool capturing) {
  if (capturing) {
    impl_->devices.capturing.insert(stream);
  } else {
    impl_->devices.capturing.erase(stream);
  }
}
void FakeRig::FailFrom(int call) {
  impl_->devices.calls = 0;
  impl_->devices.fail_from = call;
}
void FakeRig::OnHostWait(std::function<void()> call) {
  impl_->devices.on_host_wait = std::move(call);
}
std::function<void()> FakeRig::HoldCopiesAfter(int copies) {
  impl_->devices.held_from = impl_->devices.copies + copies;
  return [this] {
    impl_->devices.held_from = FakeDevices::kNone;
    impl_->devices.held_from.notify_all();
  };
}
int FakeRig::copies_in_flight() const { return impl_->devices.copies_in_flight; }
std::vector<std::span<std::byte>> FakeRig::registered() const { return impl_->devices.registered; }
int FakeRig::copies() const { return impl_->devices.copies; }
int FakeRig::gathers() const { return impl_->devices.gathers; }
