#include "tools/operand.h"

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

Result<Inputs> OpenInputs(Console& console, const std::vector<std::string>& paths, bool map) {
  DSCKPT_ASSIGN_OR_RETURN(Inputs inputs, merge::OpenInputs(paths, false, map));
  NoteLatest(console, paths[0], inputs.latest_of_run);
  return inputs;
}

}  // namespace dsckpt::tools
