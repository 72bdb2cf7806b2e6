#ifndef DSCKPT_OUTPUT_DIRECTORY_H_
#define DSCKPT_OUTPUT_DIRECTORY_H_

#include <memory>
#include <string>

#include "dsckpt/export.h"
#include "dsckpt/status.h"

namespace DSCKPT_EXPORT dsckpt {

/// A directory of several files that appears under its name complete or not at all, as a checkpoint
/// does. It is meant for files that have no manifest, such as a model in several safetensors files.
/// An object can be moved, not copied. It is not thread-safe.
class OutputDirectory {
 public:
  /// Makes an empty directory beside `path` for the caller to write into, and the parents of `path`
  /// where they are missing. It also repairs and removes what earlier writers of `path` left behind
  /// when they were killed. A lock file beside `path` keeps other writers of it out until the
  /// object is destroyed.
  ///
  /// Errors: kFailedPrecondition when another process is writing `path`; kInvalidArgument when
  /// `path` names no directory; those of the file system.
  static Result<OutputDirectory> Create(const std::string& path);
  /// Removes the directory and its files if it was not published. A forked child removes nothing.
  ~OutputDirectory();
  OutputDirectory(OutputDirectory&&) noexcept;
  OutputDirectory& operator=(OutputDirectory&&) noexcept;

  /// Returns the directory to write into until Publish() is called. The caller syncs the files that
  /// it writes there (fsync).
  const std::string& path() const;
  /// Gives the directory its final name, durably. With `replace`, the directory that has the name
  /// now gives way to it, in one step where the file system can exchange two names, and is removed
  /// when the object is destroyed.
  ///
  /// Errors: kAlreadyExists when something has the name and `replace` is false;
  /// kDurabilityUnknown when the directory has its name, but a power cut may undo that; those of
  /// the file system. After any other error than kDurabilityUnknown the name is as it was before.
  Status Publish(bool replace);

 private:
  struct Impl;
  explicit OutputDirectory(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dsckpt

#endif  // DSCKPT_OUTPUT_DIRECTORY_H_
