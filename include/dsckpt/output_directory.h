#ifndef DSCKPT_OUTPUT_DIRECTORY_H_
#define DSCKPT_OUTPUT_DIRECTORY_H_

#include <memory>
#include <string>

#include "dsckpt/export.h"
#include "dsckpt/status.h"

namespace DSCKPT_EXPORT dsckpt {

/// A directory of several files that appears under its name whole or not at all, as a checkpoint
/// does: for what has no manifest of its own, such as a model in safetensors files. Move-only; not
/// thread-safe.
class OutputDirectory {
 public:
  /// Makes an empty directory beside `path`, in which the caller writes, and missing parents; what
  /// earlier ones of that path left behind when they were killed is mended and removed.
  /// kFailedPrecondition: another process is writing `path`.
  static Result<OutputDirectory> Create(const std::string& path);
  /// Removes what was not published.
  ~OutputDirectory();
  OutputDirectory(OutputDirectory&&) noexcept;
  OutputDirectory& operator=(OutputDirectory&&) noexcept;

  /// Where to write, until Publish(). Files in it have to be synced by the caller.
  const std::string& path() const;
  /// The directory gets its name, durably. `replace`: what stands there gives way, in one step
  /// where the file system can; else kAlreadyExists. kDurabilityUnknown: it has its name, but a
  /// power cut may undo that.
  Status Publish(bool replace);

 private:
  struct Impl;
  explicit OutputDirectory(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dsckpt

#endif  // DSCKPT_OUTPUT_DIRECTORY_H_
