#include "writer/group/coordinator_store.h"

#include <sys/random.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/text.h"
#include "dsckpt/limits.h"
#include "io/directory.h"
#include "io/syscalls.h"

namespace dsckpt {
namespace {

/// A report holds a manifest and a few words.
constexpr uint64_t kMaxValueBytes = 2 * kGiB;

/// Broadcast values that rank 0 leaves for ranks that come late. One that comes later than so many
/// broadcasts has long been given up by the group.
constexpr size_t kKeptBroadcasts = 64;

/// Any key as a file name without '.', which separates the rank.
std::string FileName(std::string_view key) {
  std::string name;
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '-' || c == '_';
    if (plain) {
      name += c;
    } else {
      name += '%';
      AppendHex(name, byte);
    }
  }
  return name;
}

std::optional<int> ParseRank(std::string_view text, int size) {
  int rank = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  if (rank < 0 || rank >= size) return {};
  return rank;
}

}  // namespace

std::string RandomHex() {
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random) {
    // A sandbox without the call: the clock still tells groups apart that do not start together.
    random = static_cast<uint64_t>(Coordinator::Clock::now().time_since_epoch().count());
  }
  return Hex64(random);
}

std::string RankList(std::span<const int> ranks) {
  ShortList list(16);
  for (const int rank : ranks) list.Add(std::to_string(rank));
  return (ranks.size() == 1 ? "rank " : "ranks ") + list.Text();
}

Result<std::vector<std::vector<std::byte>>> DirectoryCoordinator::Gather(
    std::string_view key, std::span<const std::byte> mine, Clock::time_point deadline) {
  const std::string prefix = FileName(key) + ".";
  if (rank_ != 0) {
    DSCKPT_RETURN_IF_ERROR(
        io::WriteValueFile(directory_ + "/" + prefix + std::to_string(rank_), mine));
    return std::vector<std::vector<std::byte>>();
  }
  RemoveStale();
  std::vector<std::vector<std::byte>> values(static_cast<size_t>(size_));
  std::vector<bool> here(values.size());
  values[0].assign(mine.begin(), mine.end());
  here[0] = true;
  int missing = size_ - 1;
  std::vector<std::string> read;
  for (Backoff backoff(deadline); missing > 0;) {
    // One listing tells of all ranks, and it is what makes network file systems look again.
    DSCKPT_ASSIGN_OR_RETURN(const auto names, io::ListDirectory(directory_));
    for (const std::string& name : names) {
      if (!name.starts_with(prefix)) continue;
      const auto rank = ParseRank(std::string_view(name).substr(prefix.size()), size_);
      if (!rank || here[static_cast<size_t>(*rank)]) continue;
      auto value = io::ReadSmallFile(directory_ + "/" + name, kMaxValueBytes);
      if (!value.ok()) {
        if (value.status().code() == StatusCode::kNotFound) continue;
        return value.status();
      }
      values[static_cast<size_t>(*rank)] = std::move(value).value();
      here[static_cast<size_t>(*rank)] = true;
      read.push_back(directory_ + "/" + name);
      --missing;
    }
    if (missing > 0 && !backoff.Wait()) break;
  }
  {
    MutexLock lock(mutex_);
    stale_.insert(stale_.end(), read.begin(), read.end());
  }
  if (missing == 0) return values;
  std::vector<int> absent;
  for (int rank = 0; rank < size_; ++rank) {
    if (!here[static_cast<size_t>(rank)]) absent.push_back(rank);
  }
  return Status(StatusCode::kTimedOut,
                RankList(absent) + " did not report '" + std::string(key) + "' in time");
}

Result<std::vector<std::byte>> DirectoryCoordinator::Broadcast(std::string_view key,
                                                               std::span<const std::byte> value,
                                                               Clock::time_point deadline) {
  const std::string path = directory_ + "/" + FileName(key);
  if (rank_ == 0) {
    DSCKPT_RETURN_IF_ERROR(io::WriteValueFile(path, value));
    MutexLock lock(mutex_);
    broadcast_.push_back(path);
    if (broadcast_.size() > kKeptBroadcasts) {
      stale_.push_back(std::move(broadcast_.front()));
      broadcast_.pop_front();
    }
    return std::vector<std::byte>(value.begin(), value.end());
  }
  for (Backoff backoff(deadline);;) {
    auto read = io::ReadSmallFile(path, kMaxValueBytes);
    if (read.ok() || read.status().code() != StatusCode::kNotFound) return read;
    if (!backoff.Wait()) break;
  }
  return Status(StatusCode::kTimedOut, "rank 0 did not answer '" + std::string(key) + "' in time");
}

void DirectoryCoordinator::RemoveStale() {
  std::vector<std::string> paths;
  {
    MutexLock lock(mutex_);
    paths.swap(stale_);
  }
  // What stays is cleared by the next group's rank 0.
  for (const std::string& path : paths) io::Sys().unlink(path.c_str());
}

}  // namespace dsckpt
