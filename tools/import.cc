// dsckpt import: a safetensors file becomes a dsckpt shard.

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/file.h"
#include "merge/metadata.h"
#include "merge/paths.h"
#include "tools/commands.h"
#include "tools/conversions.h"
#include "tools/items.h"
#include "tools/operand.h"
#include "tools/save.h"
#include "tools/step.h"
#include "tools/terminal/format.h"
#include "tools/terminal/interrupt.h"
#include "tools/terminal/json.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

constexpr std::array<Encoding, 3> kEncodings = {Encoding::kRaw, Encoding::kZstd,
                                                Encoding::kBytePlaneZstd};

Encoding EncodingNamed(const std::string& name) {
  return *std::find_if(kEncodings.begin(), kEncodings.end(),
                       [&](Encoding encoding) { return name == EncodingName(encoding); });
}

// The safetensors file as a provider: every tensor under its own name, and what other tools
// recorded as a tied name as a tensor on the same memory, which the writer stores once.
class SafetensorsProvider final : public StateProvider {
 public:
  static Result<SafetensorsProvider> Create(const File& file, Encoding encoding,
                                            std::vector<GivenAttribute> attributes) {
    SafetensorsProvider provider(file, encoding);
    provider.attributes_ = std::move(attributes);
    for (uint32_t i = 0; i < file.tensor_count(); ++i) {
      DSCKPT_ASSIGN_OR_RETURN(Tensor tensor, file.View(file.tensor(i).name));
      provider.tensors_.push_back(std::move(tensor));
    }
    DSCKPT_ASSIGN_OR_RETURN(const merge::FileMetadata read, merge::ReadMetadata(file));
    for (const merge::Tie& tie : read.ties) {
      DSCKPT_ASSIGN_OR_RETURN(const TensorInfo owner, file.FindTensor(tie.owner));
      provider.aliases_.emplace_back(tie.name, owner.ordinal);
    }
    merge::Metadata metadata;
    metadata.Add(file.path(), read.members);
    metadata.ApplyTo(provider.save_options_);
    return provider;
  }

  void Describe(Description& description) const override {
    description.Flat();
    description.SetDefaultEncoding(encoding_);
    for (const Tensor& tensor : tensors_) DescribeAs(description, tensor.info().name, tensor);
    for (const auto& [alias, tensor] : aliases_) DescribeAs(description, alias, tensors_[tensor]);
    for (const auto& [name, value] : attributes_) description.Attribute(name, value);
  }

  const SaveOptions& save_options() const { return save_options_; }
  size_t alias_count() const { return aliases_.size(); }

 private:
  SafetensorsProvider(const File& file, Encoding encoding) : file_(file), encoding_(encoding) {}

  static void DescribeAs(Description& description, std::string_view name, const Tensor& tensor) {
    TensorSource source;
    source.data = tensor.bytes().data();
    source.dtype = tensor.info().dtype.code;
    source.shape = tensor.info().shape;
    source.capture = Capture::kUntilFence;
    description.Tensor(Key(name), source);
  }

  File file_;
  Encoding encoding_;
  std::vector<Tensor> tensors_;
  std::vector<std::pair<std::string, uint32_t>> aliases_;
  std::vector<GivenAttribute> attributes_;
  SaveOptions save_options_;
};

// All names that a shard may not bear, in one message, before anything is written.
Status CheckNames(const File& file) {
  std::string bad;
  for (uint32_t i = 0; i < file.tensor_count(); ++i) {
    const std::string_view name = file.tensor(i).name;
    const bool reserved = name == "__dsckpt__" || name == "__metadata__";
    const char* reason = reserved                                    ? "is reserved"
                         : name.find('\0') != std::string_view::npos ? "contains NUL"
                         : name.size() > kMaxNameBytes               ? "is longer than 65,536 bytes"
                                                                     : nullptr;
    if (reason == nullptr) continue;
    if (!bad.empty()) bad += ", ";
    bad += Format("'{}' {}", FitWidth(TerminalName(name), 200), reason);
  }
  if (bad.empty()) return {};
  return Status(StatusCode::kInvalidArgument,
                Format("{}: a dsckpt file cannot hold these tensor names: {}; rename them in "
                       "the source",
                       file.path(), bad))
      .WithPath(file.path());
}

Status CheckInput(const File& file) {
  if (file.format() == FileFormat::kDsckpt) {
    return Status(StatusCode::kInvalidArgument,
                  Format("{} is a dsckpt file already: copy it as it is; dsckpt export makes a "
                         "plain safetensors file of it",
                         file.path()))
        .WithPath(file.path());
  }
  return CheckNames(file);
}

void Report(Console& console, const ImportOptions& options, const File& file,
            const SafetensorsProvider& provider, const std::optional<FoundStep>& step,
            double seconds) {
  const uint64_t bytes = FileBytes(options.files.output);
  if (console.json()) {
    JsonWriter json(console);
    json.BeginObject(JsonWriter::Layout::kLines);
    json.Key("schema").String("dsckpt.import/1");
    json.Key("input").String(options.files.input);
    json.Key("output").String(options.files.output);
    json.Key("file_bytes").Uint(bytes);
    json.Key("tensors").Uint(file.tensor_count());
    json.Key("aliases").Uint(provider.alias_count());
    json.Key("encoding").String(options.encoding);
    json.Key("step");
    step ? json.Int(step->step) : json.Null();
    json.Key("step_from");
    step ? json.String(step->from) : json.Null();
    json.End();
    return;
  }
  std::string items = Count(file.tensor_count(), "tensor");
  if (provider.alias_count() != 0) items += ", " + Count(provider.alias_count(), "alias");
  console.Print("{}: {}, {} in {}\n", SafeText(options.files.output), items, HumanBytes(bytes),
                Rate(bytes, seconds));
  if (step) console.Print("  step {}, from the {}\n", step->step, step->from);
}

}  // namespace

int Import(Console& console, const ImportOptions& given) {
  const auto start = std::chrono::steady_clock::now();
  const auto operand = ToOperand(given.files.input);
  if (!operand.ok()) return console.Fail(operand.status());
  ImportOptions options = given;
  options.files.input = operand->path;
  if (operand->kind != OperandKind::kFile) {
    return console.Fail(Status(StatusCode::kInvalidArgument,
                               operand->path + " is no single file: dsckpt convert or merge make "
                                               "one dsckpt file of several")
                            .WithPath(operand->path));
  }
  const Result<File> file = File::Open(options.files.input);
  if (!file.ok()) return console.Fail(file.status());
  Status status = CheckInput(*file);
  if (status.ok()) status = CheckOutput(options.files);
  if (!status.ok()) return console.Fail(status);
  auto attributes = ParseAttributes(options.attributes);
  if (!attributes.ok()) return console.Fail(attributes.status());
  const auto step = FindStep(*file, options.step, *attributes);
  if (!step.ok()) return console.Fail(step.status());
  if (*step && !(*step)->given) attributes->push_back({"step", Value((*step)->step)});
  const auto provider = SafetensorsProvider::Create(*file, EncodingNamed(options.encoding),
                                                    std::move(attributes).value());
  if (!provider.ok()) return console.Fail(provider.status());
  const InterruptGuard guard;
  status = SaveWithProgress(console, options.files.output, *provider, provider->save_options(),
                            TotalTensorBytes(*file));
  if (!status.ok()) return FailOutput(console, options.files, status);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  Report(console, options, *file, *provider, *step, seconds.count());
  return kExitOk;
}

namespace {

struct ImportCommand {
  std::vector<std::string> inputs;
  ImportOptions options;
};

/// The name of an input in a directory of outputs.
std::string OutputIn(const std::string& directory, const std::string& input) {
  std::filesystem::path path(input);
  if (!path.has_filename()) path = path.parent_path();
  return (std::filesystem::path(directory) / path.filename()).replace_extension("dsckpt").string();
}

int ImportAll(Console& console, const ImportCommand& command) {
  ImportOptions options = command.options;
  const std::string output = options.files.output;
  const bool directory = merge::IsDirectory(output);
  if (command.inputs.size() > 1 && !directory) {
    return console.Fail(Status(StatusCode::kInvalidArgument,
                               output + " is no directory, and there are several inputs: create "
                                        "it, or import them one by one")
                            .WithPath(output));
  }
  if (command.inputs.size() > 1) console.OneLineDocuments();
  int code = kExitOk;
  for (const std::string& input : command.inputs) {
    options.files.input = input;
    options.files.output = directory ? OutputIn(output, input) : output;
    code = std::max(code, Import(console, options));
    if (code > kExitFailed) break;  // Interrupted.
  }
  return code;
}

}  // namespace

Command AddImport(Program& program) {
  auto command = std::make_shared<ImportCommand>();
  ImportOptions* const options = &command->options;
  CommandLine line = program.AddCommand("import", "Make a dsckpt file from a safetensors file");
  line.Add("FILE", command->inputs, "safetensors files, or models' directories with one")
      .Required()
      .Placeholder("...");
  AddOutput(line, options->files, "The file to write, or a directory for it (required)");
  std::vector<std::string> names;
  for (const Encoding encoding : kEncodings) names.emplace_back(EncodingName(encoding));
  line.Add("--encoding", options->encoding, "raw (default), zstd or byteplane-zstd (for floats)")
      .OneOf(names)
      .Placeholder("NAME");
  line.Add("--step", options->step, "The attribute `step`").FromZero().Placeholder("N");
  line.Add("--attribute", options->attributes, "A further attribute; repeatable")
      .Repeatable()
      .Placeholder("NAME=VALUE");
  line.Footer(
      "Examples:\n"
      "  dsckpt import model.safetensors -o model.dsckpt\n"
      "  dsckpt import m.safetensors -o m.dsckpt --encoding byteplane-zstd --force\n"
      "  dsckpt import steps/*.safetensors -o run\n"
      "\n"
      "Names, dtypes, shapes and the members of __metadata__ are kept; tied names\n"
      "recorded there (\"alias\": \"owner\") become aliases. With --encoding raw the output\n"
      "is itself a safetensors file that stock loaders open, with checksums added.\n"
      "The step is that of --step, else of the member `step` of __metadata__, else the\n"
      "number in a file name such as step1000.safetensors or model-step-1000.safetensors;\n"
      "without any of these there is none. A VALUE is a number, true, false, null, or text.\n"
      "Tensors are laid out anew, by alignment and name: their order in the file is not kept.\n"
      "In a directory an output has the name of its input, with the ending .dsckpt. With\n"
      "--json several inputs give a document a line; one that fails does not stop the rest.\n"
      "Exit code: 0 done; 1 the input is damaged; 2 could not do it.");
  return {line, [command](Console& console) { return ImportAll(console, *command); }};
}

}  // namespace dsckpt::tools
