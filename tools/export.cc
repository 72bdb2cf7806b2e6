// dsckpt export: a dsckpt shard becomes a plain safetensors file.

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/file.h"
#include "dsckpt/verify.h"
#include "tools/commands.h"
#include "tools/conversions.h"
#include "tools/interrupt.h"
#include "tools/items.h"
#include "tools/json.h"
#include "tools/progress.h"
#include "tools/save.h"
#include "tools/spill.h"
#include "tools/text.h"

namespace dsckpt::tools {
namespace {

// Room that one tensor takes in the spill file; page-aligned, so that sources are aligned.
uint64_t SpillBytes(uint64_t raw_bytes) {
  return (raw_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

// The tensors of a shard as a flat provider: raw ones straight from the mapped file, encoded ones
// decoded into a spill file.
class ShardProvider final : public StateProvider {
 public:
  explicit ShardProvider(const File& file) : file_(file) {}

  /// Finds the bytes of every tensor; decodes what is encoded. Needs no care for interrupts: all it
  /// makes goes with the process.
  Status Prepare(Console& console, const std::string& output) {
    data_.resize(file_.tensor_count());
    std::vector<uint32_t> encoded;
    uint64_t encoded_bytes = 0;
    for (uint32_t i = 0; i < file_.tensor_count(); ++i) {
      const TensorInfo info = file_.tensor(i);
      if (info.encoding == Encoding::kRaw) {
        DSCKPT_ASSIGN_OR_RETURN(Tensor view, file_.View(info.name));
        data_[i] = view.bytes().data();
        views_.push_back(std::move(view));
      } else {
        encoded.push_back(i);
        encoded_bytes += SpillBytes(info.raw_bytes);
      }
    }
    if (encoded.empty()) return {};
    DSCKPT_ASSIGN_OR_RETURN(spill_, Spill::Create(output, encoded_bytes));
    return Decode(console, encoded, encoded_bytes);
  }

  void Describe(Description& description) const override {
    description.Flat();
    for (uint32_t i = 0; i < file_.tensor_count(); ++i) {
      DescribeAs(description, file_.tensor(i).name, i);
    }
    for (uint32_t i = 0; i < file_.alias_count(); ++i) {
      const AliasInfo alias = file_.alias(i);
      DescribeAs(description, alias.name, alias.target);
    }
  }

 private:
  Status Decode(Console& console, const std::vector<uint32_t>& encoded, uint64_t total) {
    ProgressBar bar(console, "decoding");
    uint64_t done = 0;
    for (const uint32_t i : encoded) {
      const TensorInfo info = file_.tensor(i);
      std::byte* data = spill_->data() + done;
      const LoadRequest request = {info.name, data, info.raw_bytes};
      DSCKPT_RETURN_IF_ERROR(file_.Load(std::span(&request, 1)));
      data_[i] = data;
      done += SpillBytes(info.raw_bytes);
      bar.Update(done, total);
    }
    return {};
  }

  void DescribeAs(Description& description, std::string_view name, uint32_t tensor) const {
    const TensorInfo info = file_.tensor(tensor);
    TensorSource source;
    source.data = data_[tensor];
    source.dtype = info.dtype.code;
    source.shape = info.shape;
    source.capture = Capture::kUntilFence;
    description.Tensor(Key(name), source);
  }

  File file_;
  std::vector<const std::byte*> data_;  // by ordinal
  std::vector<Tensor> views_;           // keep memory alive where views are not mapped
  std::unique_ptr<Spill> spill_;
};

// Collects names for a message; the first few are enough to act on.
class NameList {
 public:
  void Add(std::string_view name, const std::string& detail) {
    if (++count_ > kShown) return;
    if (count_ > 1) text_ += ", ";
    text_ += fmt::format("'{}'{}", FitWidth(Printable(name), 200), detail);
  }
  bool empty() const { return count_ == 0; }
  std::string Text() const {
    return count_ > kShown ? fmt::format("{} and {} more", text_, count_ - kShown) : text_;
  }

 private:
  static constexpr uint64_t kShown = 10;
  uint64_t count_ = 0;
  std::string text_;
};

Status Refuse(const File& file, const std::string& why) {
  return Status(StatusCode::kUnsupported, file.path() + ": " + why).WithPath(file.path());
}

uint64_t AttributeCount(const File& file) {
  const std::optional<Node> attributes = file.attributes();
  return attributes ? attributes->size() : 0;
}

Status CheckExpressible(const File& file, bool strict) {
  if (file.format() == FileFormat::kSafetensors) {
    return Status(StatusCode::kInvalidArgument,
                  file.path() + " is a plain safetensors file already: copy it as it is")
        .WithPath(file.path());
  }
  NameList tensors;
  for (uint32_t i = 0; i < file.tensor_count(); ++i) {
    const TensorInfo info = file.tensor(i);
    const bool known = FindDType(info.dtype.code).has_value();
    if (!known || !info.dtype.listable) tensors.Add(info.name, " " + DTypeText(info.dtype));
  }
  if (!tensors.empty()) {
    return Refuse(file, "safetensors has no dtype for " + tensors.Text());
  }
  if (!strict) return {};
  NameList rest;
  for (uint32_t i = 0; i < file.object_count(); ++i) rest.Add(file.object(i).name, "");
  if (!rest.empty()) return Refuse(file, "safetensors cannot hold the objects " + rest.Text());
  if (const uint64_t count = AttributeCount(file); count != 0) {
    return Refuse(file, "safetensors cannot hold its " + Count(count, "attribute"));
  }
  return {};
}

// A corrupt tensor must not get a new life in a file without checksums. Raw tensors are read
// straight from the map, so nothing else would check them.
Status CheckContent(const Console& console, const std::string& path) {
  ProgressBar bar(console, "verifying");
  VerifyOptions options;
  options.progress = [&bar](uint64_t done, uint64_t total) { bar.Update(done, total); };
  DSCKPT_ASSIGN_OR_RETURN(const VerifyReport report, Verify(path, options));
  if (report.ok) return {};
  const Problem problem = report.problems.empty() ? Problem{} : report.problems.front();
  return Status(StatusCode::kCorrupt,
                fmt::format("{} is corrupt, first at '{}' ({}): dsckpt verify lists all; "
                            "--no-verify exports it all the same",
                            path, Printable(problem.item), problem.kind))
      .WithPath(path)
      .WithOffset(problem.offset);
}

// The user's members; the aliases among them are written again by the save, from the aliases.
Result<SaveOptions> OptionsFor(const File& file) {
  SaveOptions options;
  options.container = Container::kSafetensors;
  DSCKPT_ASSIGN_OR_RETURN(auto metadata, file.Metadata());
  for (auto& member : metadata) {
    const Result<TensorInfo> item = file.FindTensor(member.first);
    const bool alias = item.ok() && item->name == member.second && item->name != member.first;
    if (member.first == "format") {
      options.metadata_format = member.second;
    } else if (!alias && !member.first.starts_with("dsckpt")) {
      options.metadata.push_back(std::move(member));
    }
  }
  return options;
}

void Report(Console& console, const ExportOptions& options, const File& file, double seconds) {
  const uint64_t bytes = FileBytes(options.files.output);
  const uint64_t attributes = AttributeCount(file);
  if (console.json()) {
    JsonWriter json(console);
    json.BeginObject(JsonWriter::Layout::kLines);
    json.Key("schema").String("dsckpt.export/1");
    json.Key("input").String(options.files.input);
    json.Key("output").String(options.files.output);
    json.Key("file_bytes").Uint(bytes);
    json.Key("tensors").Uint(file.tensor_count());
    json.Key("aliases").Uint(file.alias_count());
    json.Key("dropped_objects").Uint(file.object_count());
    json.Key("dropped_attributes").Uint(attributes);
    json.End();
  } else {
    std::string items = Count(file.tensor_count(), "tensor");
    if (file.alias_count() != 0) items += ", " + Count(file.alias_count(), "alias");
    console.Print("{}: {}, {} in {}\n", SafeText(options.files.output), items, HumanBytes(bytes),
                  Rate(TotalTensorBytes(file), seconds));
  }
  if (file.object_count() != 0 || attributes != 0) {
    console.Note(fmt::format("left out, as safetensors cannot hold them: {}, {} (--strict refuses)",
                             Count(file.object_count(), "object"), Count(attributes, "attribute")));
  }
}

}  // namespace

int Export(Console& console, const ExportOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const Result<File> file = File::Open(options.files.input);
  if (!file.ok()) return console.Fail(file.status());
  Status status = CheckExpressible(*file, options.strict);
  if (status.ok()) status = CheckOutput(options.files);
  if (status.ok() && !options.no_verify) status = CheckContent(console, options.files.input);
  if (!status.ok()) return console.Fail(status);
  const Result<SaveOptions> save_options = OptionsFor(*file);
  if (!save_options.ok()) return console.Fail(save_options.status());

  ShardProvider provider(*file);
  status = provider.Prepare(console, options.files.output);
  if (!status.ok()) return console.Fail(status);
  const InterruptGuard guard;
  status = SaveWithProgress(console, options.files.output, provider, *save_options,
                            TotalTensorBytes(*file));
  if (!status.ok()) return FailOutput(console, options.files, status);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  Report(console, options, *file, seconds.count());
  return kExitOk;
}

Command AddExport(CLI::App& root) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* app = root.add_subcommand("export", "Make a plain safetensors file from a dsckpt file");
  AddOutputOptions(*app, options->files, "The dsckpt file");
  app->add_flag("--strict", options->strict,
                "Refuse objects and attributes; else they are dropped");
  app->add_flag("--no-verify", options->no_verify, "Do not check the input's checksums first");
  app->footer(
      "Examples:\n"
      "  dsckpt export step-1200.dsckpt -o model.safetensors\n"
      "  dsckpt export step-1200.dsckpt -o model.safetensors --strict --force\n"
      "\n"
      "Compressed tensors are decoded. Tied tensors are written once, and the other\n"
      "names recorded in __metadata__ (\"alias\": \"owner\"), as other tools do. Dtypes\n"
      "that safetensors lacks (C128, I4, U4) are refused by name.");
  return {app, [options](Console& console) { return Export(console, *options); }};
}

}  // namespace dsckpt::tools
