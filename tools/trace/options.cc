// The options of commands that look at many checkpoints.

#include <optional>
#include <string>

#include "tools/trace/trace.h"

namespace dsckpt::tools {

void AddStepOptions(CommandLine& line, StepChoice& steps) {
  line.Add("--steps", steps.steps, "Only these steps and ranges; repeatable")
      .Repeatable()
      .Placeholder("LIST");
  line.Add("--last", steps.last, "Only the last N checkpoints").FromZero().Placeholder("N");
  line.Add("--every", steps.every, "Only each N-th checkpoint").FromZero().Placeholder("N");
  line.Add("--step-from", steps.step_from, "What tells the step").Placeholder("RULE");
}

void AddReadingOptions(CommandLine& line, ReadingChoice& reading, bool parts) {
  const Argument quick =
      line.AddFlag("--quick", reading.quick, "Read indexes only, no tensor data");
  if (parts) {
    line.Add("--against", reading.against, "Compare with prev (default), init, final or a step")
        .Placeholder("WHAT");
  }
  line.Add("--cache", reading.cache, "Keep measures there, and read only what is new")
      .Excludes(quick)
      .Placeholder("FILE");
  std::optional<Argument> part;
  if (parts) {
    const auto parse_part = [&reading](const std::string& text) {
      const auto parsed = ParsePart(text);
      if (parsed.ok()) reading.part = *parsed;
      return parsed.status().message();
    };
    part = line.AddParsed("--part", parse_part, "Only tensors of part I of N, from 1")
               .Placeholder("I/N");
  }
  Argument combine =
      line.Add("--combine", reading.combine, "Caches of parts, which know everything")
          .Excludes(quick)
          .Placeholder("FILE...");
  if (part) combine.Excludes(*part);
  line.Add("-j,--threads", reading.threads, "Threads; 0: one for each core, at most 8")
      .Within(0, 256)
      .Placeholder("N");
  line.Add("--memory", reading.memory, "For elements, at least 64MiB; default: 256MiB")
      .Size()
      .Placeholder("SIZE");
  line.AddFlag("--no-verify", reading.no_verify, "Do not check checksums");
}

}  // namespace dsckpt::tools
