// dsckpt import: a safetensors file becomes a dsckpt shard.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dsckpt/file.h"
#include "tools/commands.h"
#include "tools/conversions.h"
#include "tools/interrupt.h"
#include "tools/items.h"
#include "tools/json.h"
#include "tools/save.h"
#include "tools/text.h"

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
  static Result<SafetensorsProvider> Create(const File& file, Encoding encoding) {
    SafetensorsProvider provider(file, encoding);
    for (uint32_t i = 0; i < file.tensor_count(); ++i) {
      DSCKPT_ASSIGN_OR_RETURN(Tensor tensor, file.View(file.tensor(i).name));
      provider.tensors_.push_back(std::move(tensor));
    }
    DSCKPT_ASSIGN_OR_RETURN(auto metadata, file.Metadata());
    for (auto& member : metadata) provider.AddMember(std::move(member));
    return provider;
  }

  void Describe(Description& description) const override {
    description.Flat();
    description.SetDefaultEncoding(encoding_);
    for (const Tensor& tensor : tensors_) DescribeAs(description, tensor.info().name, tensor);
    for (const auto& [alias, tensor] : aliases_) DescribeAs(description, alias, tensors_[tensor]);
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

  // "alias": "owner", where only the owner is a tensor of the file, is how stock tools record ties.
  void AddMember(std::pair<std::string, std::string> member) {
    const Result<TensorInfo> owner = file_.FindTensor(member.second);
    if (member.first == "format") {
      save_options_.metadata_format = member.second;
    } else if (owner.ok() && !file_.FindTensor(member.first).ok()) {
      aliases_.emplace_back(std::move(member.first), owner->ordinal);
    } else {
      save_options_.metadata.push_back(std::move(member));
    }
  }

  File file_;
  Encoding encoding_;
  std::vector<Tensor> tensors_;
  std::vector<std::pair<std::string, uint32_t>> aliases_;
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
    bad += fmt::format("'{}' {}", FitWidth(Printable(name), 200), reason);
  }
  if (bad.empty()) return {};
  return Status(StatusCode::kInvalidArgument,
                fmt::format("{}: a dsckpt file cannot hold these tensor names: {}; rename them in "
                            "the source",
                            file.path(), bad))
      .WithPath(file.path());
}

Status CheckInput(const File& file) {
  if (file.format() == FileFormat::kDsckpt) {
    return Status(
               StatusCode::kInvalidArgument,
               fmt::format("{} is a dsckpt file already: copy it as it is; dsckpt export makes a "
                           "plain safetensors file of it",
                           file.path()))
        .WithPath(file.path());
  }
  return CheckNames(file);
}

void Report(Console& console, const ImportOptions& options, const File& file,
            const SafetensorsProvider& provider, double seconds) {
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
    json.End();
    return;
  }
  std::string items = Count(file.tensor_count(), "tensor");
  if (provider.alias_count() != 0) items += ", " + Count(provider.alias_count(), "alias");
  console.Print("{}: {}, {} in {}\n", SafeText(options.files.output), items, HumanBytes(bytes),
                Rate(TotalTensorBytes(file), seconds));
}

}  // namespace

int Import(Console& console, const ImportOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const Result<File> file = File::Open(options.files.input);
  if (!file.ok()) return console.Fail(file.status());
  Status status = CheckInput(*file);
  if (status.ok()) status = CheckOutput(options.files);
  if (!status.ok()) return console.Fail(status);
  const auto provider = SafetensorsProvider::Create(*file, EncodingNamed(options.encoding));
  if (!provider.ok()) return console.Fail(provider.status());
  const InterruptGuard guard;
  status = SaveWithProgress(console, options.files.output, *provider, provider->save_options(),
                            TotalTensorBytes(*file));
  if (!status.ok()) return FailOutput(console, options.files, status);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  Report(console, options, *file, *provider, seconds.count());
  return kExitOk;
}

Command AddImport(CLI::App& root) {
  auto options = std::make_shared<ImportOptions>();
  CLI::App* app = root.add_subcommand("import", "Make a dsckpt file from a safetensors file");
  AddOutputOptions(*app, options->files, "The safetensors file");
  std::vector<std::string> names;
  for (const Encoding encoding : kEncodings) names.emplace_back(EncodingName(encoding));
  app->add_option("--encoding", options->encoding,
                  "raw (default), zstd or byteplane-zstd (for floats)")
      ->check(CLI::IsMember(names))
      ->option_text("NAME");
  app->footer(
      "Examples:\n"
      "  dsckpt import model.safetensors -o model.dsckpt\n"
      "  dsckpt import m.safetensors -o m.dsckpt --encoding byteplane-zstd --force\n"
      "\n"
      "Names, dtypes, shapes and the members of __metadata__ are kept; tied names\n"
      "recorded there (\"alias\": \"owner\") become aliases. With --encoding raw the output\n"
      "is itself a safetensors file that stock loaders open, with checksums added.");
  return {app, [options](Console& console) { return Import(console, *options); }};
}

}  // namespace dsckpt::tools
