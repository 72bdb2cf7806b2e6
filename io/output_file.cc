#include "io/output_file.h"

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "base/mutex.h"
#include "io/syscalls.h"
#include "io/target.h"

namespace dsckpt::io {

struct OutputFile::Impl {
  Target target;
  Temporary temporary;
  Warn warn;
  bool opened_direct = false;
  pid_t owner = getpid();
  Mutex mutex;  // Of temporary.direct, once writes are under way.

  void Send(IoQueue& queue, IoRequest request, bool may_retry, std::function<void(Status)> done);
  void StopDirect(int error);
  Status WriteError(int error, uint64_t offset, uint64_t written, uint64_t bytes) const;

  Status SyncAndClose(uint64_t exact_bytes);
  Status Rename();
  Status SyncDirectory();
  void Abandon();
};

Result<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path, bool direct,
                                                       const Warn& warn) {
  auto impl = std::make_unique<Impl>();
  DSCKPT_ASSIGN_OR_RETURN(impl->target, ResolveTarget(path));
  RemoveOrphans(impl->target);
  DSCKPT_ASSIGN_OR_RETURN(impl->temporary, CreateTemporary(impl->target, direct, warn));
  impl->opened_direct = impl->temporary.direct;
  impl->warn = warn;
  return std::unique_ptr<OutputFile>(new OutputFile(std::move(impl)));
}

OutputFile::OutputFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OutputFile::~OutputFile() { Discard(); }

const std::string& OutputFile::path() const { return impl_->target.shown; }

Status OutputFile::Reserve(uint64_t bytes) {
  if (bytes == 0) return Status();
  const int error =
      Sys().fallocate(impl_->temporary.fd, 0, 0, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  if (error == 0 || error == EOPNOTSUPP || error == ENOSYS || error == EINVAL) return Status();
  return ErrnoStatus(error, "reserve " + std::to_string(bytes) + " bytes for", path());
}

void OutputFile::Write(IoQueue& queue, std::span<const std::byte> data, uint64_t offset, int buffer,
                       std::function<void(Status)> done) {
  // A write leaves its data alone; requests carry one pointer for both directions.
  IoRequest request{.op = IoRequest::Op::kWrite,
                    .fd = impl_->temporary.fd,
                    .data = const_cast<std::byte*>(data.data()),
                    .bytes = data.size(),
                    .offset = offset,
                    .buffer = buffer,
                    .complete = {}};
  impl_->Send(queue, std::move(request), impl_->opened_direct, std::move(done));
}

void OutputFile::Impl::Send(IoQueue& queue, IoRequest request, bool may_retry,
                            std::function<void(Status)> done) {
  IoRequest sent = request;
  // `done` may destroy the file: nothing of it is used afterwards.
  sent.complete = [this, &queue, request = std::move(request), may_retry, done = std::move(done)](
                      int error, uint64_t written) mutable {
    if (may_retry && (error == EINVAL || error == EOPNOTSUPP)) {
      StopDirect(error);
      request.data += written;
      request.bytes -= written;
      request.offset += written;
      return Send(queue, std::move(request), false, std::move(done));
    }
    done(error == 0 ? Status() : WriteError(error, request.offset, written, request.bytes));
  };
  queue.Submit(std::move(sent));
}

void OutputFile::Impl::StopDirect(int error) {
  MutexLock lock(mutex);
  if (!std::exchange(temporary.direct, false)) return;
  fcntl(temporary.fd, F_SETFL, fcntl(temporary.fd, F_GETFL) & ~O_DIRECT);
  if (!warn) return;
  warn(Status(StatusCode::kUnsupported, "an O_DIRECT write to '" + target.shown +
                                            "' failed: " + std::generic_category().message(error) +
                                            "; writing through the page cache")
           .WithErrno(error)
           .WithPath(target.shown));
}

Status OutputFile::Impl::WriteError(int error, uint64_t offset, uint64_t written,
                                    uint64_t bytes) const {
  const Status why = ErrnoStatus(error, "write", target.shown);
  return Status(why.code(), why.message() + " (" + std::to_string(written) + " of " +
                                std::to_string(bytes) + " bytes at offset " +
                                std::to_string(offset) + " written)")
      .WithErrno(error)
      .WithPath(target.shown)
      .WithOffset(offset + written);
}

Status OutputFile::Publish(uint64_t exact_bytes) {
  // Holds the lock until the rename: an unlocked temporary is anybody's to remove.
  const int lock = fcntl(impl_->temporary.fd, F_DUPFD_CLOEXEC, 0);
  Status status = impl_->SyncAndClose(exact_bytes);
  if (status.ok()) status = impl_->Rename();
  if (!status.ok()) impl_->Abandon();
  if (lock >= 0) ::close(lock);
  DSCKPT_RETURN_IF_ERROR(status);
  return impl_->SyncDirectory();
}

Status OutputFile::Impl::SyncAndClose(uint64_t exact_bytes) {
  if (Sys().ftruncate(temporary.fd, static_cast<off_t>(exact_bytes)) != 0) {
    return ErrnoStatus(errno, "set the size of", target.shown);
  }
  if (Sys().fsync(temporary.fd) != 0) return ErrnoStatus(errno, "sync", target.shown);
  if (Sys().close(std::exchange(temporary.fd, -1)) != 0) {
    return ErrnoStatus(errno, "close", target.shown);
  }
  return Status();
}

Status OutputFile::Impl::Rename() {
  if (Sys().rename(temporary.path.c_str(), target.path().c_str()) != 0) {
    return ErrnoStatus(errno, "publish", target.shown);
  }
  temporary.path.clear();
  return Status();
}

Status OutputFile::Impl::SyncDirectory() {
  int error = 0;
  const int fd = Sys().open(target.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd < 0) {
    error = errno;
  } else {
    if (Sys().fsync(fd) != 0) error = errno;
    if (Sys().close(fd) != 0 && error == 0) error = errno;
  }
  if (error == 0) return Status();
  const bool cannot_sync = error == EINVAL || error == ENOTSUP;
  Status status = Status(StatusCode::kDurabilityUnknown,
                         "published '" + target.shown + "', but cannot sync its directory '" +
                             target.directory + "': " + std::generic_category().message(error) +
                             "; a power cut may bring back the old file")
                      .WithErrno(error)
                      .WithPath(target.shown);
  if (!cannot_sync) return status;
  if (warn) warn(std::move(status));
  return Status();
}

void OutputFile::Impl::Abandon() {
  if (getpid() != owner) return;
  // Before close(), which gives up the lock: later the name may be somebody else's.
  if (!temporary.path.empty()) Sys().unlink(temporary.path.c_str());
  temporary.path.clear();
  if (temporary.fd >= 0) Sys().close(std::exchange(temporary.fd, -1));
}

void OutputFile::Discard() { impl_->Abandon(); }

}  // namespace dsckpt::io
