// A directory of files that appears whole or not at all.

#include "dsckpt/output_directory.h"

#include <unistd.h>

#include <random>
#include <utility>

#include "io/directory.h"
#include "io/path.h"
#include "run/run_layout.h"
#include "run/run_lock.h"

namespace dsckpt {
namespace {

std::string MakeId() {
  std::random_device random;
  return run::AttemptId(run::kFilesSession,
                        std::to_string(random()) + "-" + std::to_string(getpid()));
}

/// Holding the lock of the entry: what killed processes left of it.
Status Mend(const std::string& parent, const std::string& name) {
  DSCKPT_ASSIGN_OR_RETURN(const auto entries, io::ListDirectory(parent));
  std::vector<std::string> left;
  for (const std::string& entry : entries) {
    const auto marked = run::ParseMarkedEntry(entry);
    if (!marked || marked->name != name) continue;
    if (!run::IsAttemptOf(marked->attempt, run::kFilesSession)) continue;
    const std::string final_path = parent + "/" + name;
    if (marked->mark == run::Mark::kReplaced && !io::Stands(final_path)) {
      // It had stepped aside for one that never came.
      DSCKPT_RETURN_IF_ERROR(io::RenameNoReplace(parent + "/" + entry, final_path));
    } else {
      left.push_back(parent + "/" + entry);
    }
  }
  DSCKPT_RETURN_IF_ERROR(io::SyncDirectory(parent));
  for (const std::string& path : left) DSCKPT_RETURN_IF_ERROR(io::RemoveAll(path));
  return Status();
}

}  // namespace

struct DSCKPT_HIDDEN OutputDirectory::Impl {
  run::AttemptPaths paths;
  std::string made;
  std::unique_ptr<io::LockFile> lock;
  const pid_t owner = getpid();

  ~Impl() {
    if (!made.empty() && getpid() == owner) static_cast<void>(io::RemoveAll(made).ok());
  }
  Status GiveName(bool replace);
};

Result<OutputDirectory> OutputDirectory::Create(const std::string& path) {
  DSCKPT_ASSIGN_OR_RETURN(std::string whole, io::AbsolutePath(path));
  whole.resize(io::WithoutTrailingSlashes(whole).size());
  auto impl = std::make_unique<Impl>();
  impl->paths = {io::ParentOf(whole), std::string(io::BaseName(whole)), MakeId()};
  if (impl->paths.name.empty() || impl->paths.name == "..") {
    return Status(StatusCode::kInvalidArgument, "'" + path + "' names no directory to write")
        .WithPath(path);
  }
  DSCKPT_RETURN_IF_ERROR(io::MakeDirectories(impl->paths.run));
  DSCKPT_ASSIGN_OR_RETURN(impl->lock, run::LockEntry(impl->paths.run, impl->paths.name));
  DSCKPT_RETURN_IF_ERROR(Mend(impl->paths.run, impl->paths.name));
  DSCKPT_RETURN_IF_ERROR(io::MakeDirectory(impl->paths.Directory()));
  impl->made = impl->paths.Directory();
  return OutputDirectory(std::move(impl));
}

OutputDirectory::OutputDirectory(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OutputDirectory::~OutputDirectory() = default;
OutputDirectory::OutputDirectory(OutputDirectory&&) noexcept = default;
OutputDirectory& OutputDirectory::operator=(OutputDirectory&&) noexcept = default;

const std::string& OutputDirectory::path() const { return impl_->made; }

/// Afterwards `made` is what is to be removed.
Status OutputDirectory::Impl::GiveName(bool replace) {
  const std::string final_path = paths.Final();
  if (!io::Stands(final_path) || !replace) {
    DSCKPT_RETURN_IF_ERROR(io::RenameNoReplace(made, final_path));
    made.clear();
    return Status();
  }
  DSCKPT_ASSIGN_OR_RETURN(made, io::ReplaceDirectory(made, final_path, paths.Replaced()));
  return Status();
}

Status OutputDirectory::Publish(bool replace) {
  DSCKPT_RETURN_IF_ERROR(io::SyncDirectory(impl_->made));
  DSCKPT_RETURN_IF_ERROR(impl_->GiveName(replace));
  const Status synced = io::SyncDirectory(impl_->paths.run);
  if (synced.ok()) return Status();
  impl_->made.clear();  // What was replaced may be what a power cut brings back.
  return Status(StatusCode::kDurabilityUnknown,
                "'" + impl_->paths.Final() +
                    "' is there, but a power cut may undo it: " + synced.message())
      .WithErrno(synced.error_number())
      .WithPath(impl_->paths.Final());
}

}  // namespace dsckpt
