#ifndef DSCKPT_TOOLS_CONFLICTS_H_
#define DSCKPT_TOOLS_CONFLICTS_H_

#include <vector>

#include "dsckpt/merge.h"
#include "dsckpt/status.h"

// Metadata in which the inputs of a merge differ.

namespace dsckpt::tools {

class Console;
class JsonWriter;

/// One note a header that could not be read, and one a conflict.
void NoteConflicts(Console& console, const std::vector<Status>& unreadable,
                   const std::vector<MergeConflict>& conflicts);
/// The member "conflicting_metadata", an array, in an open object.
void WriteConflicts(JsonWriter& json, const std::vector<MergeConflict>& conflicts);

}  // namespace dsckpt::tools

#endif  // DSCKPT_TOOLS_CONFLICTS_H_
