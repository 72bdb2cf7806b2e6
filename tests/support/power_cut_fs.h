#ifndef DSCKPT_TESTS_SUPPORT_POWER_CUT_FS_H_
#define DSCKPT_TESTS_SUPPORT_POWER_CUT_FS_H_

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "io/syscalls.h"

/// While it lives, knows what a power cut would leave of the directory `root`: of each file the
/// content, and of each directory the entries, that it had when it was last synced, or else, as
/// chance has it, those that it has now. Nothing orders one against another, as in a file system
/// without a journal. Syncs have to pass through io::Sys(); all else may happen in any way. One at
/// a time.
class PowerCutFs {
 public:
  explicit PowerCutFs(std::string root) : root_(std::move(root)) {
    current_ = this;
    Table() = dsckpt::io::RealSyscalls();
    Table().fsync = Fsync;
    before_ = dsckpt::io::ReplaceSyscalls(&Table());
    Remember(root_);
    Sync(NodeAt(root_));
  }
  ~PowerCutFs() {
    dsckpt::io::ReplaceSyscalls(before_);
    current_ = nullptr;
    for (const auto& [inode, node] : nodes_) ::close(node.fd);
  }
  PowerCutFs(const PowerCutFs&) = delete;
  PowerCutFs& operator=(const PowerCutFs&) = delete;

  /// Called after each sync, from the thread that made it.
  void OnSync(void (*hook)()) { hook_ = hook; }

  /// Makes at `copy` what may stand at `root` after a power cut now. `kept`: of a hundred files and
  /// directories, how many have reached storage without having been synced.
  void CutTo(const std::string& copy, std::mt19937& random, unsigned kept) {
    std::lock_guard lock(mutex_);
    Restore(NodeAt(root_), copy, random, kept);
  }

 private:
  struct Node {
    int fd = -1;  // Holds the inode, so that its number is not used again.
    bool directory = false;
    std::string content;                   // Of a file, when it was synced last.
    std::map<std::string, ino_t> entries;  // Of a directory, likewise.
  };

  static int Fsync(int fd) {
    const int result = ::fsync(fd);
    if (result != 0) return result;
    {
      std::lock_guard lock(current_->mutex_);
      current_->Sync(current_->Remember("/proc/self/fd/" + std::to_string(fd)));
    }
    if (current_->hook_ != nullptr) current_->hook_();
    return 0;
  }

  ino_t NodeAt(const std::string& path) {
    struct stat info {};
    ::stat(path.c_str(), &info);
    return info.st_ino;
  }

  /// Opens what stands at `path`, unless it is known; 0 where nothing does.
  ino_t Remember(const std::string& path) {
    const int fd = ::open(path.c_str(), O_PATH | O_CLOEXEC);
    struct stat info {};
    if (fd < 0 || ::fstat(fd, &info) != 0) return 0;
    const auto [node, added] = nodes_.try_emplace(info.st_ino);
    if (!added) {
      ::close(fd);
      return info.st_ino;
    }
    node->second.fd = fd;
    node->second.directory = S_ISDIR(info.st_mode);
    return info.st_ino;
  }

  static std::string PathOf(const Node& node) { return "/proc/self/fd/" + std::to_string(node.fd); }

  std::map<std::string, ino_t> EntriesNow(const Node& node) {
    std::map<std::string, ino_t> entries;
    DIR* const directory = ::opendir(PathOf(node).c_str());
    if (directory == nullptr) return entries;
    while (const dirent* entry = ::readdir(directory)) {
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (const ino_t inode = Remember(PathOf(node) + "/" + name); inode != 0) {
        entries[name] = inode;
      }
    }
    ::closedir(directory);
    return entries;
  }

  static std::string ContentNow(const Node& node) {
    std::string content;
    const int fd = ::open(PathOf(node).c_str(), O_RDONLY | O_CLOEXEC);
    char buffer[1 << 16];
    for (ssize_t n; (n = ::read(fd, buffer, sizeof buffer)) > 0;) {
      content.append(buffer, static_cast<size_t>(n));
    }
    ::close(fd);
    return content;
  }

  void Sync(ino_t inode) {
    const auto found = nodes_.find(inode);
    if (found == nodes_.end()) return;
    if (found->second.directory) {
      auto entries = EntriesNow(found->second);  // Adds nodes: `found` stays valid in a map.
      found->second.entries = std::move(entries);
    } else {
      found->second.content = ContentNow(found->second);
    }
  }

  void Restore(ino_t inode, const std::string& to, std::mt19937& random, unsigned kept) {
    const Node& node = nodes_.at(inode);
    const bool now = random() % 100 < kept;
    if (!node.directory) {
      const std::string content = now ? ContentNow(node) : node.content;
      const int fd = ::open(to.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
      static_cast<void>(::write(fd, content.data(), content.size()) == 0);
      ::close(fd);
      return;
    }
    ::mkdir(to.c_str(), 0755);
    const auto entries = now ? EntriesNow(node) : node.entries;
    for (const auto& [name, below] : entries) Restore(below, to + "/" + name, random, kept);
  }

  static dsckpt::io::Syscalls& Table() {
    static dsckpt::io::Syscalls table;
    return table;
  }

  static inline PowerCutFs* current_ = nullptr;
  const std::string root_;
  const dsckpt::io::Syscalls* before_ = nullptr;
  void (*hook_)() = nullptr;
  std::mutex mutex_;
  std::map<ino_t, Node> nodes_;
};

#endif  // DSCKPT_TESTS_SUPPORT_POWER_CUT_FS_H_
