#include "io/input_file.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "base/lru.h"
#include "base/mutex.h"
#include "dsckpt/limits.h"
#include "io/file_kind.h"
#include "io/syscalls.h"
#include "io/transfer.h"

namespace dsckpt::io {
namespace {

Status Truncated(const std::string& path, uint64_t offset, uint64_t wanted, uint64_t found) {
  return Status(StatusCode::kTruncated, "'" + path + "' is truncated: expected " +
                                            std::to_string(wanted) + " bytes at offset " +
                                            std::to_string(offset) + ", found " +
                                            std::to_string(found))
      .WithPath(path)
      .WithOffset(offset + found);
}

// Non-blocking, or a FIFO without a writer would hang before its kind can be seen.
int OpenToRead(const std::string& path) {
  return Sys().open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
}

/// Keeps the last used descriptors of files that were given back, for the whole process: files that
/// are read once in a while must not keep one each. Never destroyed: files may outlive what is.
class ReopenedDescriptors {
 public:
  static ReopenedDescriptors& Get() {
    static auto* const all = [] {
      // A child of fork() must not find the mutex held by a thread that it does not have.
      pthread_atfork([] { Get().mutex_.lock(); }, [] { Get().mutex_.unlock(); },
                     [] { Get().mutex_.unlock(); });
      return new ReopenedDescriptors;
    }();
    return *all;
  }
  std::shared_ptr<const Descriptor> Find(const InputFile* file) {
    std::lock_guard lock(mutex_);
    const auto* const found = kept_.Find(file);
    return found != nullptr ? *found : nullptr;
  }
  void Put(const InputFile* file, std::shared_ptr<const Descriptor> descriptor) {
    std::lock_guard lock(mutex_);
    kept_.Put(file, std::move(descriptor));
  }
  void Erase(const InputFile* file) {
    std::lock_guard lock(mutex_);
    kept_.Erase(file);
  }

 private:
  std::mutex mutex_;
  LruCache<const InputFile*, std::shared_ptr<const Descriptor>> kept_{kReopenedFiles};
};

class PosixFile : public InputFile {
 public:
  PosixFile(std::string path, int fd, const struct stat& info)
      : path_(std::move(path)),
        device_(info.st_dev),
        inode_(info.st_ino),
        size_(static_cast<uint64_t>(info.st_size)),
        own_(std::make_shared<const Descriptor>(fd)) {}
  ~PosixFile() override {
    if (own_ == nullptr) ReopenedDescriptors::Get().Erase(this);
  }

  uint64_t size() const override { return size_; }
  const std::string& path() const override { return path_; }
  std::shared_ptr<const Descriptor> descriptor() const override {
    if (own_ != nullptr) return own_;
    if (auto kept = ReopenedDescriptors::Get().Find(this)) return kept;
    // Several threads may open it at once; all but the last used ones are closed after use.
    auto reopened = Reopen();
    if (reopened != nullptr) ReopenedDescriptors::Get().Put(this, reopened);
    return reopened;
  }
  void Release(std::shared_ptr<const Mapping> mapping) const override {
    mapping_ = std::move(mapping);
    own_ = nullptr;
  }

  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    const auto from = descriptor();
    if (from == nullptr) return ReadMapping(offset, out);
    Transfer transfer{.request = {.op = IoRequest::Op::kRead,
                                  .fd = from->fd(),
                                  .data = out.data(),
                                  .bytes = out.size(),
                                  .offset = offset,
                                  .buffer = -1,
                                  .complete = {}}};
    std::optional<int> error;
    if (out.empty()) error = 0;
    while (!error) {
      const ssize_t got = Sys().pread(from->fd(), transfer.next_data(), transfer.next_bytes(),
                                      static_cast<off_t>(transfer.next_offset()));
      error = transfer.Advance(got >= 0 ? got : -errno);
    }
    if (*error == 0) return Status();
    if (*error == ENODATA) return Truncated(path_, offset, out.size(), transfer.done);
    return ErrnoStatus(*error, "read", path_).WithOffset(transfer.next_offset());
  }

  Result<uint64_t> ReadDirect(uint64_t offset, std::span<std::byte> out) const override {
    const uint64_t there = std::min<uint64_t>(out.size(), size_ - std::min(size_, offset));
    const auto from = descriptor();
    const int direct_fd = from != nullptr ? from->direct_fd() : -1;
    uint64_t done = 0;
    while (direct_fd >= 0 && done < there) {
      const ssize_t got = Sys().pread(direct_fd, out.data() + done, out.size() - done,
                                      static_cast<off_t>(offset + done));
      // The rest, an odd end or a refusal, goes through the page cache or gives the error there.
      if (got <= 0) break;
      done += static_cast<uint64_t>(got);
      if (done % kPageBytes != 0) break;
    }
    if (done < there) {
      DSCKPT_RETURN_IF_ERROR(ReadAt(offset + done, out.subspan(done, there - done)));
    }
    return there;
  }

 private:
  /// The inode is that of the mapping, which keeps it alive: its number means no other file.
  std::shared_ptr<const Descriptor> Reopen() const {
    const int fd = OpenToRead(path_);
    if (fd < 0) return nullptr;
    auto descriptor = std::make_shared<const Descriptor>(fd);
    struct stat info;
    const bool same = fstat(fd, &info) == 0 && info.st_dev == device_ && info.st_ino == inode_;
    return same ? descriptor : nullptr;
  }

  Status ReadMapping(uint64_t offset, std::span<std::byte> out) const {
    const auto bytes = mapping_->bytes();
    const uint64_t there = offset < bytes.size() ? bytes.size() - offset : 0;
    if (out.size() > there) return Truncated(path_, offset, out.size(), there);
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return Status();
  }

  const std::string path_;
  const dev_t device_;
  const ino_t inode_;
  const uint64_t size_;
  mutable std::shared_ptr<const Descriptor> own_;   // Null: given back.
  mutable std::shared_ptr<const Mapping> mapping_;  // Once it was given back.
};

class SourceFile : public InputFile {
 public:
  explicit SourceFile(std::shared_ptr<const Source> source) : source_(std::move(source)) {}

  uint64_t size() const override { return source_->size(); }
  const std::string& path() const override { return path_; }
  std::shared_ptr<const Descriptor> descriptor() const override { return nullptr; }

  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    const uint64_t size = source_->size();
    const uint64_t there = offset < size ? size - offset : 0;
    if (out.size() > there) return Truncated("source", offset, out.size(), there);
    return out.empty() ? Status() : source_->ReadAt(offset, out);
  }
  Result<uint64_t> ReadDirect(uint64_t offset, std::span<std::byte> out) const override {
    const uint64_t there =
        std::min<uint64_t>(out.size(), source_->size() - std::min(source_->size(), offset));
    DSCKPT_RETURN_IF_ERROR(ReadAt(offset, out.first(there)));
    return there;
  }

 private:
  const std::shared_ptr<const Source> source_;
  const std::string path_;
};

}  // namespace

Descriptor::~Descriptor() {
  if (direct_fd_ >= 0) Sys().close(direct_fd_);
  Sys().close(fd_);
}

int Descriptor::direct_fd() const {
  std::call_once(direct_opened_, [this] {
    // The same inode whatever stands under its path by now.
    const std::string path = "/proc/self/fd/" + std::to_string(fd_);
    direct_fd_ = Sys().open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT, 0);
  });
  return direct_fd_;
}

Result<std::shared_ptr<const InputFile>> InputFile::Open(const std::string& path) {
  const int fd = OpenToRead(path);
  if (fd < 0) return ErrnoStatus(errno, "open", path);
  struct stat info;
  Status status;
  if (fstat(fd, &info) != 0) {
    status = ErrnoStatus(errno, "examine", path);
  } else if (!S_ISREG(info.st_mode)) {
    status =
        Status(StatusCode::kInvalidArgument, "cannot read '" + path + "': it is " +
                                                 FileKind(info.st_mode) + ", not a regular file")
            .WithPath(path);
  }
  if (!status.ok()) {
    Sys().close(fd);
    return status;
  }
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  return std::shared_ptr<const InputFile>(std::make_shared<PosixFile>(path, fd, info));
}

std::shared_ptr<const InputFile> InputFile::Of(std::shared_ptr<const Source> source) {
  return std::make_shared<SourceFile>(std::move(source));
}

Result<std::shared_ptr<const Mapping>> Mapping::Map(const InputFile& file) {
  const auto descriptor = file.descriptor();
  if (descriptor == nullptr) {
    return Status(StatusCode::kUnsupported, "a source that is no file cannot be mapped");
  }
  std::span<const std::byte> bytes;
  if (file.size() != 0) {
    void* at = Sys().mmap(nullptr, file.size(), PROT_READ, MAP_SHARED, descriptor->fd(), 0);
    if (at == MAP_FAILED) return ErrnoStatus(errno, "map", file.path());
    bytes = {static_cast<const std::byte*>(at), file.size()};
  }
  return std::shared_ptr<const Mapping>(new Mapping(bytes));
}

Mapping::~Mapping() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace dsckpt::io
