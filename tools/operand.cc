#include "tools/operand.h"

#include <algorithm>

#include "tools/terminal/console.h"
#include "tools/terminal/format.h"

namespace dsckpt::tools {

const char* StepSourceText(StepSource source) {
  switch (source) {
    case StepSource::kManifest:
      return "manifest";
    case StepSource::kAttribute:
      return "attribute";
    case StepSource::kMetadata:
      return "metadata";
    case StepSource::kName:
      return "name";
    case StepSource::kUnknown:
      break;
  }
  return nullptr;
}

void NoteLatest(Console& console, const std::string& run, const std::string& latest) {
  if (latest.empty()) return;
  console.Note(Format("{} is a run: this is its latest checkpoint, {}", run, latest));
}

void NoteSkipped(Console& console, const Trajectory& run) {
  constexpr size_t kShown = 5;
  const auto& skipped = run.skipped();
  for (size_t i = 0; i < std::min(kShown, skipped.size()); ++i) {
    console.Note(Format("{}: left out: {}", skipped[i].first, skipped[i].second));
  }
  if (skipped.size() > kShown) {
    console.Note(Format("{} more entries are left out", skipped.size() - kShown));
  }
}

Result<Inputs> OpenInputs(Console& console, const std::vector<std::string>& paths, bool map) {
  DSCKPT_ASSIGN_OR_RETURN(Inputs inputs, merge::OpenInputs(paths, false, map));
  NoteLatest(console, paths[0], inputs.latest_of_run);
  return inputs;
}

}  // namespace dsckpt::tools
