#ifndef DSCKPT_TOOLS_STORED_TENSOR_H_
#define DSCKPT_TOOLS_STORED_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "dsckpt/checkpoint.h"
#include "dsckpt/file.h"
#include "dsckpt/status.h"

namespace dsckpt::tools {

class Console;

/// What `cat` and `extract` read from: one file, or a checkpoint in several.
struct Store {
  /// Of one file.
  std::optional<File> file;
  /// Else.
  Checkpoint checkpoint;

  static Result<Store> Open(Console& console, const std::string& path);
  const std::string& path() const { return file ? file->path() : checkpoint.path(); }
};

/// One tensor of a store: of a file a stored one, of a checkpoint a whole one, from its parts.
class StoredTensor {
 public:
  /// kNotFound.
  static Result<StoredTensor> Find(const Store& store, const std::string& name);

  const std::string& name() const { return name_; }
  const DTypeInfo& dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  uint64_t bytes() const { return bytes_; }
  /// Whether several elements share a byte: these have no boxes.
  bool packed() const { return dtype_.block_elements != 1; }

  using Take = std::function<Status(std::span<const std::byte>)>;
  /// Gives the elements of a box in their order, in parts of at most 8 MiB, checked.
  /// REQUIRES: !packed(), and the box lies in the shape.
  Status ReadBox(const std::vector<Range>& box, const Take& take) const;
  /// All of it as it is in memory.
  Status ReadAll(const Take& take) const;

 private:
  std::optional<File> file_;
  Checkpoint checkpoint_;
  std::string name_;
  DTypeInfo dtype_{};
  std::vector<int64_t> shape_;
  uint64_t bytes_ = 0;
};

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_STORED_TENSOR_H_
