#ifndef DSCKPT_READER_RESTORE_MATCH_H_
#define DSCKPT_READER_RESTORE_MATCH_H_

// Does a state to restore fit what is stored? The same for a file and for a checkpoint of many
// shards, which differ in how they find items and in how tensors move.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "dsckpt/file.h"
#include "state/description.h"

namespace dsckpt::reader {

/// An object, and the open file that holds it.
struct FoundObject {
  const File* file;
  ObjectInfo info;
};

/// Compares a description with what is stored, item by item, and keeps what does not fit for one
/// message, what fits for Move(). Borrows the description and the files of found objects.
class RestoreMatch {
 public:
  /// `where`: "file" or "checkpoint", for messages.
  RestoreMatch(const Description::Data& wanted, std::string_view where)
      : wanted_(wanted), where_(where) {}

  /// The shape of a described tensor.
  std::span<const int64_t> Shape(uint32_t tensor) const;
  /// Whether a described tensor, which is to have `shape`, fits a stored one; notes why not.
  bool FitsTensor(uint32_t tensor, std::string_view name, std::span<const int64_t> shape,
                  DType stored_dtype, std::span<const int64_t> stored_shape);
  /// Whether the memory of a described tensor may be written; notes where it may not.
  bool IsWritable(uint32_t tensor);

  /// Looks at each described object that is to be restored. `find` returns what is stored under a
  /// name, or notes itself that nothing is, where that matters.
  void MatchObjects(const std::function<std::optional<FoundObject>(std::string_view name)>& find);
  /// Looks for each described attribute that is to be restored.
  void MatchAttributes(const std::function<std::optional<Value>(std::string_view name)>& find);

  /// Notes an item of the state that is not stored.
  void AddMissing(std::string_view name) { missing_.AddName(name); }
  /// Notes a stored item that the state does not have.
  void AddUnwanted(std::string_view name) { unwanted_.AddName(name); }

  /// kMismatch lists what does not fit; with `partial` items that only one side has are left out.
  Status Outcome(bool partial) const;
  /// Restores the objects and then the attributes that were found.
  Status Move() const;

 private:
  const Description::Data& wanted_;
  const std::string_view where_;
  ShortList different_, missing_, unwanted_;
  std::vector<std::pair<uint32_t, FoundObject>> objects_;  // By position in the description.
  std::vector<std::pair<uint32_t, Value>> attributes_;
};

/// The name of the attribute at a position in a description.
std::string_view AttributeName(const Description::Data& description, uint32_t position);

}  // namespace dsckpt::reader

#endif  // DSCKPT_READER_RESTORE_MATCH_H_
