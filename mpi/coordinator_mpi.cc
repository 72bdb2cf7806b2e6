// A coordinator on point-to-point messages.

#include <algorithm>
#include <climits>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "dsckpt/mpi.h"

namespace dsckpt {
namespace {

// A message: u32 length of the key, the key, the value. Both directions carry their key, because a
// rank that was given up may send what nobody waits for any more.
constexpr int kGatherTag = 1, kBroadcastTag = 2;

/// Values that rank 0 received and nobody asked for yet; older ones are of attempts given up.
constexpr size_t kKeptValues = 64;

using Message = std::vector<std::byte>;

Message Pack(std::string_view key, std::span<const std::byte> value) {
  const auto length = static_cast<uint32_t>(key.size());
  Message message(sizeof length + key.size() + value.size());
  std::memcpy(message.data(), &length, sizeof length);
  std::memcpy(message.data() + sizeof length, key.data(), key.size());
  std::copy(value.begin(), value.end(), message.begin() + sizeof length + key.size());
  return message;
}

/// Moves the value to the front of `message`; the key.
std::string Unpack(Message& message) {
  uint32_t length = 0;
  if (message.size() < sizeof length) return {};
  std::memcpy(&length, message.data(), sizeof length);
  if (message.size() - sizeof length < length) return {};
  std::string key(reinterpret_cast<const char*>(message.data()) + sizeof length, length);
  message.erase(message.begin(), message.begin() + sizeof length + length);
  return key;
}

Status MpiError(int code, const char* doing) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return Status(StatusCode::kIoError, std::string("MPI cannot ") + doing + ": " + text);
}

class MpiCoordinator final : public Coordinator {
 public:
  MpiCoordinator(MPI_Comm communicator, std::string session)
      : communicator_(communicator), session_(std::move(session)) {
    MPI_Comm_rank(communicator_, &rank_);
    MPI_Comm_size(communicator_, &size_);
  }
  ~MpiCoordinator() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized != 0) return;
    for (Sent& sent : sent_) {
      int done = 0;
      MPI_Test(&sent.request, &done, MPI_STATUS_IGNORE);
      if (done != 0) continue;
      // A rank that is gone never took it. Waiting would hang; MPI may still read the memory, so it
      // is given away for good.
      MPI_Request_free(&sent.request);
      static_cast<void>(new Message(std::move(sent.message)));
    }
    MPI_Comm_free(&communicator_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string session() const override { return session_; }

  Result<std::vector<Message>> Gather(std::string_view key, std::span<const std::byte> mine,
                                      Clock::time_point deadline) override {
    if (rank_ != 0) {
      DSCKPT_RETURN_IF_ERROR(Send(0, kGatherTag, Pack(key, mine)));
      return std::vector<Message>();
    }
    std::vector<Message> values(static_cast<size_t>(size_));
    values[0].assign(mine.begin(), mine.end());
    for (int rank = 1; rank < size_; ++rank) {
      auto value = Await(rank, kGatherTag, key, deadline);
      if (value.status().code() == StatusCode::kTimedOut) return Missing(key, rank, deadline);
      DSCKPT_ASSIGN_OR_RETURN(values[static_cast<size_t>(rank)], std::move(value));
    }
    return values;
  }

  Result<Message> Broadcast(std::string_view key, std::span<const std::byte> value,
                            Clock::time_point deadline) override {
    if (rank_ != 0) return Await(0, kBroadcastTag, key, deadline);
    for (int rank = 1; rank < size_; ++rank) {
      DSCKPT_RETURN_IF_ERROR(Send(rank, kBroadcastTag, Pack(key, value)));
    }
    return Message(value.begin(), value.end());
  }

 private:
  struct Sent {
    Message message;
    MPI_Request request;
  };
  using Source = std::pair<int, int>;  // rank and tag

  /// Returns at once; the memory stays until MPI has taken it.
  Status Send(int to, int tag, Message message) {
    if (message.size() > INT_MAX) {
      return Status(StatusCode::kLimitExceeded, "a report of more than 2 GiB");
    }
    std::lock_guard lock(mutex_);
    std::erase_if(sent_, [](Sent& sent) {
      int done = 0;
      MPI_Test(&sent.request, &done, MPI_STATUS_IGNORE);
      return done != 0;
    });
    sent_.push_back({std::move(message), MPI_REQUEST_NULL});
    Sent& sent = sent_.back();
    const int code = MPI_Isend(sent.message.data(), static_cast<int>(sent.message.size()), MPI_BYTE,
                               to, tag, communicator_, &sent.request);
    return code == MPI_SUCCESS ? Status() : MpiError(code, "send");
  }

  /// The value of `key` from one rank.
  Result<Message> Await(int from, int tag, std::string_view key, Clock::time_point deadline) {
    auto pause = std::chrono::microseconds(50);
    while (true) {
      {
        std::lock_guard lock(mutex_);
        DSCKPT_RETURN_IF_ERROR(Receive(from, tag));
        auto& waiting = received_[{from, tag}];
        const auto found = std::find_if(waiting.begin(), waiting.end(),
                                        [&](const auto& entry) { return entry.first == key; });
        if (found != waiting.end()) {
          Message value = std::move(found->second);
          waiting.erase(found);
          return value;
        }
      }
      const auto now = Clock::now();
      if (now >= deadline) break;
      std::this_thread::sleep_for(std::min<Clock::duration>(pause, deadline - now));
      pause = std::min(2 * pause, std::chrono::microseconds(10'000));
    }
    return Status(StatusCode::kTimedOut, "rank " + std::to_string(from) + " did not send '" +
                                             std::string(key) + "' in time");
  }

  /// Takes all that has come. REQUIRES: mutex held.
  Status Receive(int from, int tag) {
    while (true) {
      int here = 0, bytes = 0;
      MPI_Message handle;
      MPI_Status status;
      int code = MPI_Improbe(from, tag, communicator_, &here, &handle, &status);
      if (code != MPI_SUCCESS) return MpiError(code, "look for messages");
      if (here == 0) return Status();
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      Message message(static_cast<size_t>(bytes));
      code = MPI_Mrecv(message.data(), bytes, MPI_BYTE, &handle, MPI_STATUS_IGNORE);
      if (code != MPI_SUCCESS) return MpiError(code, "receive");
      std::string key = Unpack(message);
      auto& waiting = received_[{from, tag}];
      waiting.emplace_back(std::move(key), std::move(message));
      if (waiting.size() > kKeptValues) waiting.pop_front();
    }
  }

  /// Time is up and `first` is missing: who else?
  Status Missing(std::string_view key, int first, Clock::time_point deadline) {
    std::string ranks = std::to_string(first);
    for (int rank = first + 1; rank < size_; ++rank) {
      if (!Await(rank, kGatherTag, key, deadline).ok()) ranks += ", " + std::to_string(rank);
    }
    return Status(StatusCode::kTimedOut,
                  "rank " + ranks + " did not report '" + std::string(key) + "' in time");
  }

  MPI_Comm communicator_;
  const std::string session_;
  int rank_ = 0, size_ = 1;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::vector<Sent> sent_;
  std::map<Source, std::deque<std::pair<std::string, Message>>> received_;
};

/// Different for any two groups: the clock and the process of rank 0.
std::string MakeSession() {
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  char name[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  MPI_Get_processor_name(name, &length);
  const uint64_t host = std::hash<std::string>()(std::string(name, static_cast<size_t>(length)));
  const auto memory = reinterpret_cast<uintptr_t>(&length);  // Differs from process to process.
  uint64_t bits = (static_cast<uint64_t>(now) ^ host ^ memory) * 0x9e3779b97f4a7c15;
  std::string text;
  for (int i = 0; i < 16; ++i, bits >>= 4) text += "0123456789abcdef"[bits & 15];
  return text;
}

}  // namespace

Result<std::shared_ptr<Coordinator>> JoinMpi(MPI_Comm communicator) {
  int initialized = 0, level = MPI_THREAD_SINGLE;
  MPI_Initialized(&initialized);
  if (initialized != 0) MPI_Query_thread(&level);
  if (level < MPI_THREAD_MULTIPLE) {
    return Status(StatusCode::kFailedPrecondition,
                  "JoinMpi needs MPI_Init_thread with MPI_THREAD_MULTIPLE");
  }
  MPI_Comm own = MPI_COMM_NULL;
  int code = MPI_Comm_dup(communicator, &own);
  if (code != MPI_SUCCESS) return MpiError(code, "duplicate the communicator");
  // Errors come back as codes: the library ends no process.
  MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
  int rank = 0;
  MPI_Comm_rank(own, &rank);
  std::string session = rank == 0 ? MakeSession() : std::string(16, '0');
  code = MPI_Bcast(session.data(), 16, MPI_CHAR, 0, own);
  if (code != MPI_SUCCESS) {
    MPI_Comm_free(&own);
    return MpiError(code, "agree on a session");
  }
  return std::shared_ptr<Coordinator>(std::make_shared<MpiCoordinator>(own, std::move(session)));
}

}  // namespace dsckpt
