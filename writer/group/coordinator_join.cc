// The handshake of a group in a shared directory (spec/commit.md, "Joining"). Files:
//   lock                  locked by rank 0 while its coordinator lives
//   hello-JOB-RANK        a process has started: its nonce and the size of its group
//   members-SESSION       the nonces that a session is made of, by rank
//   session               SESSION and "open" or "go"
//   ack-SESSION-RANK      that rank takes part
//   conflict-NONCE        the process of that nonce must not go on: two groups use this path

#include <charconv>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "format/checksum.h"
#include "io/directory.h"
#include "io/output_file.h"
#include "writer/group/coordinator_store.h"

namespace dsckpt {
namespace {

using Clock = Coordinator::Clock;

constexpr size_t kHexDigits = 16;
constexpr uint64_t kMaxHandshakeBytes = 64 << 20;
/// How long rank 0 waits for the lock: children of a killed process may hold it a little longer.
constexpr std::chrono::milliseconds kLockPatience{2000};
/// When acknowledgements are missing, some hello may be that of a dead process which the living one
/// has written again meanwhile. Doubled from look to look.
constexpr std::chrono::milliseconds kFirstRecheck{500};

class Handshake {
 public:
  explicit Handshake(const SharedDirectoryOptions& options)
      : path_(options.path),
        rank_(options.rank),
        size_(options.size),
        deadline_(Clock::now() + options.timeout),
        hello_prefix_("hello-" + Hex64(format::Hash64(std::as_bytes(std::span(options.job)))) +
                      "-"),
        nonce_(RandomHex()) {}

  Result<std::shared_ptr<Coordinator>> Run() {
    std::unique_ptr<io::LockFile> lock;
    if (rank_ == 0) {
      DSCKPT_RETURN_IF_ERROR(io::MakeDirectories(path_));
      auto taken = io::LockFile::Take(File("lock"), kLockPatience);
      if (taken.status().code() == StatusCode::kFailedPrecondition) return Refused();
      DSCKPT_ASSIGN_OR_RETURN(lock, std::move(taken));
      DSCKPT_RETURN_IF_ERROR(Lead());
    } else {
      DSCKPT_RETURN_IF_ERROR(Follow());
    }
    return std::shared_ptr<Coordinator>(std::make_shared<DirectoryCoordinator>(
        File(session_), session_, rank_, size_, std::move(lock)));
  }

 private:
  struct Hello {
    std::string nonce;
    int size = 0;
  };

  std::string File(const std::string& name) const { return path_ + "/" + name; }
  std::string HelloName(int rank) const { return hello_prefix_ + std::to_string(rank); }

  Status Write(const std::string& name, std::string_view text) const {
    return io::WriteValueFile(File(name), std::as_bytes(std::span(text)));
  }
  /// Nothing where there is no such file.
  Result<std::optional<std::string>> Read(const std::string& name) const {
    const auto bytes = io::ReadSmallFile(File(name), kMaxHandshakeBytes);
    if (bytes.status().code() == StatusCode::kNotFound) return std::optional<std::string>();
    if (!bytes.ok()) return bytes.status();
    return std::optional(std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()));
  }

  Result<std::optional<Hello>> ReadHello(int rank) const {
    DSCKPT_ASSIGN_OR_RETURN(const auto text, Read(HelloName(rank)));
    Hello hello;
    if (!text || text->size() < kHexDigits + 2) return std::optional<Hello>();
    hello.nonce = text->substr(0, kHexDigits);
    std::from_chars(text->data() + kHexDigits + 1, text->data() + text->size(), hello.size);
    return std::optional(std::move(hello));
  }

  Status Conflict() const {
    return Status(StatusCode::kFailedPrecondition,
                  "two jobs use '" + path_ + "' to coordinate: give each a path of its own")
        .WithPath(path_);
  }
  void MarkConflict(const std::string& nonce) const {
    // Best effort: without it the others run into their time-out.
    static_cast<void>(Write("conflict-" + nonce, "").ok());
  }

  /// This rank 0 found another one alive. Its own ranks must not wait for it.
  Status Refused() const {
    for (int rank = 1; rank < size_; ++rank) {
      const auto hello = ReadHello(rank);
      if (hello.ok() && *hello) MarkConflict((*hello)->nonce);
    }
    return Conflict();
  }

  Status TimedOut(std::string what) const {
    return Status(StatusCode::kTimedOut, "joining the group in '" + path_ + "': " + what)
        .WithPath(path_);
  }

  // Other ranks.

  Status Follow() {
    for (Backoff backoff(deadline_);;) {
      // First: once the group has begun, what later jobs do here does not matter.
      DSCKPT_ASSIGN_OR_RETURN(const bool begun, LookForSession());
      if (begun) return Status();
      DSCKPT_ASSIGN_OR_RETURN(const auto conflict, io::KindOf(File("conflict-" + nonce_)));
      if (conflict != io::PathKind::kNone) return Conflict();
      DSCKPT_RETURN_IF_ERROR(KeepHello());
      if (!backoff.Wait()) break;
    }
    return TimedOut("rank 0 did not begin in time");
  }

  Result<bool> LookForSession() {
    DSCKPT_ASSIGN_OR_RETURN(const auto text, Read("session"));
    if (!text || text->size() < kHexDigits + 3) return false;
    const std::string id = text->substr(0, kHexDigits);
    if (id != session_) {
      DSCKPT_ASSIGN_OR_RETURN(const auto members, Read("members-" + id));
      if (!members || members->size() != static_cast<size_t>(size_) * kHexDigits) return false;
      const size_t mine = static_cast<size_t>(rank_) * kHexDigits;
      if (members->compare(mine, kHexDigits, nonce_) != 0) return false;
      DSCKPT_RETURN_IF_ERROR(Write("ack-" + id + "-" + std::to_string(rank_), ""));
      session_ = id;
    }
    return text->substr(kHexDigits + 1) == "go";
  }

  Status KeepHello() {
    DSCKPT_ASSIGN_OR_RETURN(const auto hello, ReadHello(rank_));
    if (hello && hello->nonce == nonce_) return Status();
    if (hello && said_hello_) {
      // Rank 0 may know either of the two.
      MarkConflict(hello->nonce);
      MarkConflict(nonce_);
      return Conflict();
    }
    // Over that of a dead process; or again, since rank 0 clears what it finds when it starts.
    Status said = Write(HelloName(rank_), nonce_ + " " + std::to_string(size_));
    if (said.code() == StatusCode::kNotFound) return Status();  // Rank 0 has yet to make it.
    said_hello_ = said.ok();
    return said;
  }

  // Rank 0.

  Status Lead() {
    DSCKPT_RETURN_IF_ERROR(Clear());
    nonces_.assign(static_cast<size_t>(size_), "");
    nonces_[0] = nonce_;
    Status led = Gather();
    if (led.code() == StatusCode::kFailedPrecondition) {
      for (const std::string& nonce : nonces_) {
        if (!nonce.empty() && nonce != nonce_) MarkConflict(nonce);
      }
    }
    return led;
  }

  Status Clear() const {
    DSCKPT_ASSIGN_OR_RETURN(const auto names, io::ListDirectory(path_));
    for (const std::string& name : names) {
      // A temporary may be that of a rank that says hello just now.
      if (name == "lock" || io::IsTemporaryName(name)) continue;
      DSCKPT_RETURN_IF_ERROR(io::RemoveAll(File(name)));
    }
    return Status();
  }

  Status Gather() {
    auto recheck = kFirstRecheck;
    Clock::time_point recheck_at;
    for (Backoff backoff(deadline_);;) {
      DSCKPT_ASSIGN_OR_RETURN(const auto names, io::ListDirectory(path_));
      DSCKPT_RETURN_IF_ERROR(CheckConflicts(names));
      if (session_.empty()) {
        DSCKPT_RETURN_IF_ERROR(ReadHellos(names));
        if (Missing(names).empty()) {
          DSCKPT_RETURN_IF_ERROR(Propose());
          recheck_at = Clock::now() + recheck;
          continue;
        }
      } else if (Missing(names).empty()) {
        return Write("session", session_ + " go");
      } else if (Clock::now() >= recheck_at) {
        DSCKPT_ASSIGN_OR_RETURN(const bool same, SameHellos());
        if (!same) DSCKPT_RETURN_IF_ERROR(Propose());
        recheck *= 2;
        recheck_at = Clock::now() + recheck;
      }
      if (!backoff.Wait()) return TimedOut(RankList(Missing(names)) + " did not come in time");
    }
  }

  Status CheckConflicts(const std::vector<std::string>& names) const {
    for (const std::string& name : names) {
      if (!name.starts_with("conflict-")) continue;
      for (const std::string& nonce : nonces_) {
        if (name.substr(9) == nonce) return Conflict();
      }
    }
    return Status();
  }

  Status ReadHellos(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (!name.starts_with(hello_prefix_)) continue;
      int rank = 0;
      const char* const end = name.data() + name.size();
      std::from_chars(name.data() + hello_prefix_.size(), end, rank);
      if (rank <= 0 || rank >= size_ || !nonces_[static_cast<size_t>(rank)].empty()) continue;
      DSCKPT_RETURN_IF_ERROR(TakeHello(rank));
    }
    return Status();
  }

  Status TakeHello(int rank) {
    DSCKPT_ASSIGN_OR_RETURN(const auto hello, ReadHello(rank));
    if (!hello) return Status();
    nonces_[static_cast<size_t>(rank)] = hello->nonce;
    if (hello->size == size_) return Status();
    return Status(StatusCode::kFailedPrecondition,
                  "rank " + std::to_string(rank) + " was told of " + std::to_string(hello->size) +
                      " ranks in '" + path_ + "', rank 0 of " + std::to_string(size_))
        .WithPath(path_);
  }

  Result<bool> SameHellos() {
    const auto before = nonces_;
    for (int rank = 1; rank < size_; ++rank) DSCKPT_RETURN_IF_ERROR(TakeHello(rank));
    return before == nonces_;
  }

  /// A new session of the hellos as they are.
  Status Propose() {
    session_ = RandomHex();
    std::string members;
    for (const std::string& nonce : nonces_) members += nonce;
    DSCKPT_RETURN_IF_ERROR(io::MakeDirectory(File(session_)));
    DSCKPT_RETURN_IF_ERROR(Write("members-" + session_, members));
    return Write("session", session_ + " open");
  }

  /// The ranks without a hello, or without an acknowledgement of the session.
  std::vector<int> Missing(const std::vector<std::string>& names) const {
    std::vector<int> missing;
    const std::set<std::string> here(names.begin(), names.end());
    const std::string ack = "ack-" + session_ + "-";
    for (int rank = 1; rank < size_; ++rank) {
      const bool came = session_.empty() ? !nonces_[static_cast<size_t>(rank)].empty()
                                         : here.contains(ack + std::to_string(rank));
      if (!came) missing.push_back(rank);
    }
    return missing;
  }

  const std::string path_;
  const int rank_, size_;
  const Clock::time_point deadline_;
  const std::string hello_prefix_;
  const std::string nonce_;
  bool said_hello_ = false;
  std::string session_;              // Accepted, or proposed.
  std::vector<std::string> nonces_;  // Rank 0: by rank, empty where not known yet.
};

}  // namespace

Result<std::shared_ptr<Coordinator>> JoinSharedDirectory(const SharedDirectoryOptions& options) {
  if (options.path.empty() || options.size < 1 || options.rank < 0 ||
      options.rank >= options.size) {
    return Status(StatusCode::kInvalidArgument,
                  "rank " + std::to_string(options.rank) + " of " + std::to_string(options.size) +
                      " in '" + options.path + "': expected a path and 0 <= rank < size");
  }
  return Handshake(options).Run();
}

}  // namespace dsckpt
