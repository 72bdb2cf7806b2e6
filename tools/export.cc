// dsckpt export: a dsckpt shard becomes a plain safetensors file.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/file.h"
#include "dsckpt/verify.h"
#include "merge/cast.h"
#include "merge/metadata.h"
#include "merge/select/selection.h"
#include "tools/commands.h"
#include "tools/conversions.h"
#include "tools/items.h"
#include "tools/operand.h"
#include "tools/save.h"
#include "tools/selection_options.h"
#include "tools/spill.h"
#include "tools/terminal/format.h"
#include "tools/terminal/interrupt.h"
#include "tools/terminal/json.h"
#include "tools/terminal/progress.h"
#include "tools/terminal/text.h"

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
  /// `names`: of tensors, then of aliases, in the output; nothing for those that are left out.
  ShardProvider(const File& file, std::vector<std::optional<std::string>> names,
                std::optional<DType> dtype)
      : file_(file), names_(std::move(names)), dtype_(dtype) {
    needed_.resize(file_.tensor_count());
    for (uint32_t i = 0; i < names_.size(); ++i) {
      if (!names_[i]) continue;
      const bool alias = i >= file_.tensor_count();
      needed_[alias ? file_.alias(i - file_.tensor_count()).target : i] = true;
      ++(alias ? aliases_ : tensors_);
    }
  }

  /// What the output holds: stored tensors, and further names of them.
  uint64_t tensor_count() const { return std::count(needed_.begin(), needed_.end(), true); }
  uint64_t alias_count() const { return tensors_ + aliases_ - tensor_count(); }
  uint64_t raw_bytes() const {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < file_.tensor_count(); ++i) {
      if (needed_[i]) bytes += file_.tensor(i).raw_bytes;
    }
    return bytes;
  }
  uint64_t cast_count() const {
    uint64_t casts = 0;
    for (uint32_t i = 0; i < file_.tensor_count(); ++i) casts += needed_[i] && IsCast(i);
    return casts;
  }
  uint64_t overflows() const { return overflows_; }

  /// Finds the bytes of every tensor; decodes what is encoded. Needs no care for interrupts: all it
  /// makes goes with the process.
  Status Prepare(Console& console, const std::string& output) {
    data_.resize(file_.tensor_count());
    std::vector<uint32_t> encoded;
    uint64_t encoded_bytes = 0;
    for (uint32_t i = 0; i < file_.tensor_count(); ++i) {
      if (!needed_[i]) continue;
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
      if (names_[i]) DescribeAs(description, *names_[i], i);
    }
    for (uint32_t i = 0; i < file_.alias_count(); ++i) {
      const auto& name = names_[file_.tensor_count() + i];
      if (name) DescribeAs(description, *name, file_.alias(i).target);
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
    if (IsCast(tensor)) Cast(tensor, source);
    description.Tensor(Key(name), source);
  }

  bool IsCast(uint32_t tensor) const {
    const DType from = file_.tensor(tensor).dtype.code;
    return dtype_ && *dtype_ != from && merge::CanCast(from);
  }

  /// The address goes on saying which tensors are one.
  void Cast(uint32_t tensor, TensorSource& source) const {
    const DType from = source.dtype;
    source.dtype = *dtype_;
    source.read = [this, tensor, from](uint64_t offset, std::span<std::byte> out) -> Status {
      const auto read = [&](uint64_t at, std::span<std::byte> bytes) -> Status {
        std::memcpy(bytes.data(), data_[tensor] + at, bytes.size());
        return {};
      };
      DSCKPT_ASSIGN_OR_RETURN(const uint64_t overflows,
                              merge::ReadCast(from, *dtype_, offset, out, read));
      overflows_ += overflows;
      return {};
    };
  }

  File file_;
  std::vector<std::optional<std::string>> names_;
  std::optional<DType> dtype_;
  std::vector<bool> needed_;  // by ordinal
  uint64_t tensors_ = 0, aliases_ = 0;
  mutable std::atomic<uint64_t> overflows_ = 0;
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
    text_ += Format("'{}'{}", FitWidth(TerminalName(name), 200), detail);
  }
  bool empty() const { return count_ == 0; }
  std::string Text() const {
    return count_ > kShown ? Format("{} and {} more", text_, count_ - kShown) : text_;
  }

 private:
  static constexpr uint64_t kShown = 10;
  uint64_t count_ = 0;
  std::string text_;
};

Status Refuse(const File& file, const std::string& why) {
  return Status(StatusCode::kUnsupported, file.path() + ": " + why).WithPath(file.path());
}

Result<std::vector<std::optional<std::string>>> NamesFor(const File& file,
                                                         const TensorSelection& selection) {
  std::vector<std::string_view> names;
  for (uint32_t i = 0; i < file.tensor_count(); ++i) names.push_back(file.tensor(i).name);
  for (uint32_t i = 0; i < file.alias_count(); ++i) names.push_back(file.alias(i).name);
  return merge::SelectNames(selection, names, file.tree().has_value());
}

Status CheckExpressible(const File& file, const ExportOptions& options,
                        const merge::Metadata& metadata) {
  if (file.format() == FileFormat::kSafetensors) {
    return Status(StatusCode::kInvalidArgument,
                  file.path() +
                      " is a plain safetensors file already: copy it as it is, or let "
                      "dsckpt convert or merge --format safetensors change it")
        .WithPath(file.path());
  }
  NameList tensors;
  for (uint32_t i = 0; i < file.tensor_count(); ++i) {
    const TensorInfo info = file.tensor(i);
    if (!options.selection.names.Takes(info.name)) continue;
    const bool known = FindDType(info.dtype.code).has_value();
    if (!known || !info.dtype.listable) tensors.Add(info.name, " " + DTypeText(info.dtype));
  }
  if (!tensors.empty()) {
    return Refuse(file, "safetensors has no dtype for " + tensors.Text());
  }
  if (!options.strict) return {};
  NameList rest;
  for (uint32_t i = 0; i < file.object_count(); ++i) rest.Add(file.object(i).name, "");
  if (!rest.empty()) return Refuse(file, "safetensors cannot hold the objects " + rest.Text());
  if (const uint64_t count = metadata.left_out_attributes(); count != 0) {
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
                Format("{} is corrupt, first at '{}' ({}): dsckpt verify lists all; "
                       "--no-verify exports it all the same",
                       path, TerminalName(problem.item), problem.kind))
      .WithPath(path)
      .WithOffset(problem.offset);
}

// The user's members, and attributes as members. Aliases are written again by the save.
Result<merge::Metadata> MetadataFor(const File& file) {
  merge::Metadata metadata;
  if (file.format() == FileFormat::kSafetensors) return metadata;
  DSCKPT_ASSIGN_OR_RETURN(const merge::FileMetadata read, merge::ReadMetadata(file));
  metadata.Add(file.path(), read.members);
  metadata.AddAttributes(file);
  return metadata;
}

void ReportJson(Console& console, const ExportOptions& options, const File& file,
                const merge::Metadata& metadata, const ShardProvider& provider) {
  JsonWriter json(console);
  json.BeginObject(JsonWriter::Layout::kLines);
  json.Key("schema").String("dsckpt.export/1");
  json.Key("input").String(options.files.input);
  json.Key("output").String(options.files.output);
  json.Key("file_bytes").Uint(FileBytes(options.files.output));
  json.Key("tensors").Uint(provider.tensor_count());
  json.Key("aliases").Uint(provider.alias_count());
  json.Key("cast").Uint(provider.cast_count());
  json.Key("became_infinite").Uint(provider.overflows());
  json.Key("dropped_objects").Uint(file.object_count());
  json.Key("dropped_attributes").Uint(metadata.left_out_attributes());
  json.Key("dropped_values").Uint(PlainValues(file));
  json.Key("tensor_order").String("alignment, name");
  json.End();
}

void ReportText(Console& console, const ExportOptions& options, const ShardProvider& provider,
                double seconds) {
  std::string items = Count(provider.tensor_count(), "tensor");
  if (provider.alias_count() != 0) items += ", " + Count(provider.alias_count(), "alias");
  console.Print("{}: {}, {} in {}\n", SafeText(options.files.output), items,
                HumanBytes(FileBytes(options.files.output)), Rate(provider.raw_bytes(), seconds));
  if (provider.cast_count() != 0) {
    console.Print("  {} cast to {}\n", Count(provider.cast_count(), "tensor"),
                  FindDType(*options.selection.dtype)->name);
  }
  console.Write("  tensors by alignment, then name: an imported file had its own order\n");
}

void NoteLeftOut(Console& console, const ExportOptions& options, const File& file,
                 const merge::Metadata& metadata, const ShardProvider& provider) {
  const uint64_t attributes = metadata.left_out_attributes();
  const uint64_t values = PlainValues(file);
  if (file.object_count() != 0 || attributes != 0 || values != 0) {
    std::string rest;
    const auto add = [&](const std::string& what) { rest += (rest.empty() ? "" : ", ") + what; };
    if (file.object_count() != 0) add(Count(file.object_count(), "object"));
    if (attributes != 0) add(Count(attributes, "attribute"));
    if (values != 0) add(Count(values, "plain value") + " of the state tree");
    console.Note("left out, as safetensors cannot hold them: " + rest +
                 (options.strict ? "" : " (--strict refuses objects and attributes)"));
  }
  if (provider.overflows() != 0) {
    console.Note(Format("{} too large for {} and became infinite",
                        Count(provider.overflows(), "element"),
                        FindDType(*options.selection.dtype)->name));
  }
}

int ExportFile(Console& console, const ExportOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const Result<File> file = File::Open(options.files.input);
  if (!file.ok()) return console.Fail(file.status());
  const Result<merge::Metadata> metadata = MetadataFor(*file);
  if (!metadata.ok()) return console.Fail(metadata.status());
  Status status = CheckExpressible(*file, options, *metadata);
  if (status.ok()) status = CheckOutput(options.files);
  auto names = NamesFor(*file, options.selection);
  if (status.ok()) status = names.status();
  if (status.ok() && !options.no_verify) status = merge::CheckVerifiable(*file);
  if (status.ok() && !options.no_verify) status = CheckContent(console, options.files.input);
  if (!status.ok()) return console.Fail(status);

  ShardProvider provider(*file, std::move(names).value(), options.selection.dtype);
  status = provider.Prepare(console, options.files.output);
  if (!status.ok()) return console.Fail(status);
  SaveOptions save_options;
  save_options.container = Container::kSafetensors;
  metadata->ApplyTo(save_options);
  const InterruptGuard guard;
  status =
      SaveWithProgress(console, options.files.output, provider, save_options, provider.raw_bytes());
  if (!status.ok()) return FailOutput(console, options.files, status);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (console.json()) {
    ReportJson(console, options, *file, *metadata, provider);
  } else {
    ReportText(console, options, provider, seconds.count());
  }
  NoteLeftOut(console, options, *file, *metadata, provider);
  return kExitOk;
}

}  // namespace

int Export(Console& console, const ExportOptions& options) {
  const auto operand = ToOperand(options.files.input);
  if (!operand.ok()) return console.Fail(operand.status());
  ExportOptions file = options;
  file.files.input = operand->path;
  if (operand->kind == OperandKind::kFile) return ExportFile(console, file);
  MergeOptions merge;
  merge.container = Container::kSafetensors;
  merge.selection = options.selection;
  merge.verify = !options.no_verify;
  merge.strict = options.strict;
  merge.replace = options.files.force;
  return Merge(console, {operand->path}, options.files.output, std::move(merge));
}

Command AddExport(Program& program) {
  auto options = std::make_shared<ExportOptions>();
  CommandLine line =
      program.AddCommand("export", "Make a plain safetensors file from a dsckpt file");
  AddOutputOptions(line, options->files,
                   "A dsckpt file; a checkpoint, run or model directory, or an .index.json");
  AddSelectionOptions(line, options->selection);
  line.AddFlag("--strict", options->strict, "Refuse objects and attributes; else they are dropped");
  line.AddFlag("--no-verify", options->no_verify, "Do not check the input's checksums first");
  line.Footer(
      "Examples:\n"
      "  dsckpt export step-1200.dsckpt -o model.safetensors\n"
      "  dsckpt export step-1200.dsckpt -o model.safetensors --strict --force\n"
      "\n"
      "Compressed tensors are decoded. Tied tensors are written once, and the other\n"
      "names recorded in __metadata__ (\"alias\": \"owner\"), as other tools do. Attributes\n"
      "that are text or numbers become members of __metadata__. Tensors lie in the order\n"
      "of their alignment, then of their names: a file that was imported had its own. Of\n"
      "more than one file the tensors are put together, as by dsckpt merge. Dtypes\n"
      "that safetensors lacks (C128, I4, U4) are refused by name.\n"
      "Exit code: 0 done; 1 the input is damaged or incomplete; 2 could not do it.");
  return {line, [options](Console& console) { return Export(console, *options); }};
}

}  // namespace dsckpt::tools
