// dsckpt extract: a tensor, or a part of one, as a file of numpy.

#include <sys/stat.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/commands.h"
#include "tools/items.h"
#include "tools/numpy.h"
#include "tools/output_file.h"
#include "tools/save.h"
#include "tools/slice.h"
#include "tools/stored_tensor.h"
#include "tools/terminal/format.h"
#include "tools/terminal/interrupt.h"
#include "tools/terminal/json.h"
#include "tools/terminal/progress.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

struct Options {
  OutputOptions files;
  std::string name;
};

/// The spelling of a dtype in .npy files; of those that numpy lacks, that of their codes.
struct NumpyType {
  std::string descr;
  bool codes = false;
};

NumpyType TypeOf(const DTypeInfo& dtype) {
  switch (dtype.code) {
    case DType::kBool:
      return {"|b1"};
    case DType::kU8:
      return {"|u1"};
    case DType::kI8:
      return {"|i1"};
    case DType::kU16:
      return {"<u2"};
    case DType::kI16:
      return {"<i2"};
    case DType::kU32:
      return {"<u4"};
    case DType::kI32:
      return {"<i4"};
    case DType::kU64:
      return {"<u8"};
    case DType::kI64:
      return {"<i8"};
    case DType::kF16:
      return {"<f2"};
    case DType::kF32:
      return {"<f4"};
    case DType::kF64:
      return {"<f8"};
    case DType::kC64:
      return {"<c8"};
    case DType::kC128:
      return {"<c16"};
    case DType::kBF16:
      return {"<u2", true};
    default:
      return {"|u1", true};
  }
}

/// A tensor and the part of it that was asked for; packed ones are taken as bytes.
struct Wanted {
  StoredTensor tensor;
  std::vector<Range> box;
  std::vector<int64_t> shape;  ///< In the file.
  NumpyType type;
};

Result<Wanted> FindWanted(const Store& store, const std::string& text) {
  std::string name = text, brackets = "[]";
  Result<StoredTensor> tensor = StoredTensor::Find(store, name);
  if (const auto slice = SliceIn(text); !tensor.ok() && slice) {
    brackets = *slice;
    name.resize(text.size() - slice->size());
    tensor = StoredTensor::Find(store, name);
  }
  if (!tensor.ok()) {
    return Status(StatusCode::kNotFound, Format("{}: there is no tensor '{}'; dsckpt inspect lists "
                                                "the names",
                                                store.path(), TerminalName(name)))
        .WithPath(store.path());
  }
  if (!FindDType(tensor->dtype().code)) {
    return Status(StatusCode::kUnsupported,
                  Format("{}: tensor '{}' is of a dtype that this release does not know, {}: "
                         "dsckpt cat prints its bytes",
                         store.path(), TerminalName(name), DTypeText(tensor->dtype())))
        .WithPath(store.path());
  }
  const NumpyType type = TypeOf(tensor->dtype());
  if (tensor->packed()) {
    if (brackets != "[]") {
      return Status(StatusCode::kUnsupported,
                    Format("{}: elements of {} share bytes: tensor '{}' can be taken as a whole "
                           "alone",
                           store.path(), tensor->dtype().name, TerminalName(name)))
          .WithPath(store.path());
    }
    const auto bytes = static_cast<int64_t>(tensor->bytes());
    return Wanted{std::move(tensor).value(), {}, {bytes}, type};
  }
  DSCKPT_ASSIGN_OR_RETURN(Slice slice, ParseSlice(brackets, tensor->shape()));
  return Wanted{std::move(tensor).value(), std::move(slice.box), std::move(slice.shape), type};
}

uint64_t BytesOf(const Wanted& wanted) {
  uint64_t bytes = wanted.tensor.packed() ? 1 : wanted.tensor.dtype().block_bytes;
  for (const int64_t size : wanted.shape) bytes *= static_cast<uint64_t>(size);
  return bytes;
}

Status WriteNumpy(Console& console, const Wanted& wanted, const std::string& path) {
  DSCKPT_ASSIGN_OR_RETURN(const auto out, OutputFile::Create(path));
  const std::string header = NumpyHeader(wanted.type.descr, wanted.shape);
  DSCKPT_RETURN_IF_ERROR(out->Write(std::as_bytes(std::span(header))));
  ProgressBar bar(console, SafeText(path));
  const uint64_t total = BytesOf(wanted);
  uint64_t done = 0;
  const auto take = [&](std::span<const std::byte> bytes) -> Status {
    if (InterruptGuard::signal() != 0) return Status(StatusCode::kCancelled, "interrupted");
    DSCKPT_RETURN_IF_ERROR(out->Write(bytes));
    bar.Update(done += bytes.size(), total);
    return {};
  };
  DSCKPT_RETURN_IF_ERROR(wanted.tensor.packed() ? wanted.tensor.ReadAll(take)
                                                : wanted.tensor.ReadBox(wanted.box, take));
  return out->Publish();
}

void Report(Console& console, const Options& options, const Wanted& wanted) {
  if (console.json()) {
    JsonWriter json(console);
    json.BeginObject(JsonWriter::Layout::kLines);
    json.Key("schema").String("dsckpt.extract/1");
    json.Key("output").String(options.files.output);
    json.Key("tensor").String(wanted.tensor.name());
    json.Key("dtype").String(DTypeText(wanted.tensor.dtype()));
    json.Key("numpy_dtype").String(wanted.type.descr);
    json.Key("shape").BeginArray();
    for (const int64_t size : wanted.shape) json.Int(size);
    json.End();
    json.Key("bytes").Uint(BytesOf(wanted));
    json.End();
  } else {
    console.Print("{}: {} {}, {}\n", SafeText(options.files.output),
                  DTypeText(wanted.tensor.dtype()), ShapeText(wanted.shape),
                  HumanBytes(BytesOf(wanted)));
  }
  if (!wanted.type.codes) return;
  console.Note(Format("numpy has no {}: {} holds its codes as {}{}", wanted.tensor.dtype().name,
                      options.files.output, wanted.type.descr == "<u2" ? "uint16" : "uint8",
                      wanted.tensor.packed() ? ", several elements a byte, in one dimension" : ""));
}

int Extract(Console& console, const Options& options) {
  const auto store = Store::Open(console, options.files.input);
  if (!store.ok()) return console.Fail(store.status());
  const auto wanted = FindWanted(*store, options.name);
  if (!wanted.ok()) return console.Fail(wanted.status());
  if (const Status status = CheckOutput(options.files); !status.ok()) return console.Fail(status);
  const InterruptGuard guard;
  const Status status = WriteNumpy(console, *wanted, options.files.output);
  if (!status.ok()) return FailOutput(console, options.files, status);
  Report(console, options, *wanted);
  return kExitOk;
}

}  // namespace

Command AddExtract(Program& program) {
  auto options = std::make_shared<Options>();
  CommandLine line =
      program.AddCommand("extract", "Write a tensor, or a part of one, as a .npy file");
  AddOutputOptions(line, options->files,
                   "A dsckpt or safetensors file; a checkpoint, run or model directory");
  line.Add("NAME", options->name, "The tensor's name, with the part that is wanted behind it")
      .Required()
      .Placeholder(" ");
  line.Footer(
      "Examples:\n"
      "  dsckpt extract step-1200.dsckpt model/embed -o embed.npy\n"
      "  dsckpt extract run/step-0000001200 'model/embed[5, :64]' -o rows.npy\n"
      "  python -c 'import numpy; print(numpy.load(\"rows.npy\").mean())'\n"
      "\n"
      "A part is written as in Python: begin:end for each dimension, an index alone drops\n"
      "its dimension, negative numbers count from the end, what is left out is whole. Only\n"
      "the chunks that hold the part are read, and they are checked. Dtypes that numpy\n"
      "lacks (BF16, F8, F6, F4, I4, U4) are written as their codes, in uint16 or uint8,\n"
      "which is said. With the package ml_dtypes: array.view(ml_dtypes.bfloat16).\n"
      "--json, schema dsckpt.extract/1: output, tensor, dtype, numpy_dtype, shape and bytes.\n"
      "Exit code: 0 done; 1 the tensor is damaged or incomplete; 2 could not do it.");
  return {line, [options](Console& console) { return Extract(console, *options); }};
}

}  // namespace dsckpt::tools
