#include "tools/conflicts.h"

#include <algorithm>
#include <string>

#include "tools/terminal/console.h"
#include "tools/terminal/format.h"
#include "tools/terminal/json.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

constexpr size_t kShownValues = 3;

}  // namespace

void NoteConflicts(Console& console, const std::vector<Status>& unreadable,
                   const std::vector<MergeConflict>& conflicts) {
  for (const Status& why : unreadable) {
    console.Note("left out: metadata that cannot be read: " + Sentence(why));
  }
  for (const MergeConflict& conflict : conflicts) {
    std::string text =
        Format("the inputs differ in the {} '{}', which is left out: ",
               conflict.attribute ? "attribute" : "metadata", TerminalName(conflict.key));
    const size_t shown = std::min(conflict.values.size(), kShownValues);
    for (size_t i = 0; i < shown; ++i) {
      const MergeConflict::Said& said = conflict.values[i];
      text += Format("{}\"{}\" in {}", i == 0 ? "" : ", ", FitWidth(TerminalName(said.value), 100),
                     said.file);
    }
    if (shown < conflict.values.size()) {
      text += Format(" and {} more", conflict.values.size() - shown);
    }
    console.Note(text);
  }
}

void WriteConflicts(JsonWriter& json, const std::vector<MergeConflict>& conflicts) {
  json.Key("conflicting_metadata").BeginArray(JsonWriter::Layout::kLines);
  for (const MergeConflict& conflict : conflicts) {
    json.BeginObject();
    json.Key("key").String(conflict.key);
    json.Key("values").BeginArray();
    for (const MergeConflict::Said& said : conflict.values) {
      json.BeginObject();
      json.Key("file").String(said.file);
      json.Key("value").String(said.value);
      json.End();
    }
    json.End();
    json.End();
  }
  json.End();
}

}  // namespace dsckpt::tools
