// dsckpt cat: the bytes of an object or of a tensor.

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tools/commands.h"
#include "tools/pickle_opcodes.h"
#include "tools/stored_tensor.h"
#include "tools/terminal/format.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

struct Options {
  std::string path, item;
  bool opcodes = false;
};

/// An object and the file that it is in.
struct FoundObject {
  File file;
  ObjectInfo info;
};

/// Nothing: there is none. kMismatch: files of a checkpoint hold different ones.
Result<std::optional<FoundObject>> FindObject(const Store& store, const std::string& name) {
  std::optional<FoundObject> found;
  const uint32_t files = store.file ? 1 : store.checkpoint.shard_count();
  for (uint32_t i = 0; i < files; ++i) {
    Result<File> file = store.file ? Result<File>(*store.file) : store.checkpoint.OpenShard(i);
    if (!file.ok()) return file.status();
    const Result<ObjectInfo> info = file->FindObject(name);
    if (!info.ok()) continue;
    if (found && found->file.Digest(found->info) != file->Digest(*info)) {
      return Status(StatusCode::kInvalidArgument,
                    Format("{}: its files hold different objects '{}', {} and {} among them: name "
                           "one of the files",
                           store.path(), TerminalName(name), found->file.path(), file->path()))
          .WithPath(store.path());
    }
    if (!found) found = FoundObject{*file, *info};
  }
  return found;
}

class ConsoleSink final : public Sink {
 public:
  explicit ConsoleSink(Console& console) : console_(console) {}
  Status Write(std::span<const std::byte> bytes) override {
    console_.Write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (console_.writable()) return {};
    return Status(StatusCode::kCancelled, "standard output takes no more");
  }

 private:
  Console& console_;
};

bool IsText(std::string_view media_type) {
  return media_type.starts_with("text/") || media_type.starts_with("application/json");
}

Status Print(Console& console, const Store& store, const Options& options) {
  DSCKPT_ASSIGN_OR_RETURN(const auto object, FindObject(store, options.item));
  if (options.opcodes) {
    if (!object) {
      return Status(StatusCode::kNotFound, Format("{}: there is no object '{}' to list opcodes of",
                                                  store.path(), TerminalName(options.item)))
          .WithPath(store.path());
    }
    DSCKPT_ASSIGN_OR_RETURN(const auto bytes, object->file.ReadObject(options.item));
    return PrintPickleOpcodes(console, bytes);
  }
  if (console.out_is_terminal() && !(object && IsText(object->info.media_type))) {
    return Status(StatusCode::kInvalidArgument,
                  Format("'{}' is binary: send it into a file (> FILE) or a pipe",
                         TerminalName(options.item)))
        .WithPath(store.path());
  }
  ConsoleSink sink(console);
  if (object) return object->file.ReadObject(options.item, sink);
  const auto tensor = StoredTensor::Find(store, options.item);
  if (!tensor.ok()) {
    return Status(StatusCode::kNotFound,
                  Format("{}: there is neither an object nor a tensor '{}'; dsckpt inspect lists "
                         "the names",
                         store.path(), TerminalName(options.item)))
        .WithPath(store.path());
  }
  return tensor->ReadAll([&](std::span<const std::byte> bytes) { return sink.Write(bytes); });
}

int Cat(Console& console, const Options& options) {
  const auto store = Store::Open(console, options.path);
  if (!store.ok()) return console.Fail(store.status());
  const Status status = Print(console, *store, options);
  if (status.ok() || status.code() == StatusCode::kCancelled) return kExitOk;
  return console.Fail(status);
}

}  // namespace

Command AddCat(Program& program) {
  auto options = std::make_shared<Options>();
  CommandLine line = program.AddCommand("cat", "Print the bytes of an object or of a tensor");
  line.Add("PATH", options->path,
           "A dsckpt or safetensors file; a checkpoint, run or model directory")
      .Required()
      .Placeholder(" ");
  line.Add("ITEM", options->item, "The name of an object or of a tensor")
      .Required()
      .Placeholder(" ");
  line.AddFlag("--opcodes", options->opcodes, "List what a pickle would do, without doing it");
  line.Footer(
      "Examples:\n"
      "  dsckpt cat step-1200.dsckpt notes/readme\n"
      "  dsckpt cat step-1200.dsckpt rng > rng.bin\n"
      "  dsckpt cat step-1200.dsckpt optimizer --opcodes | grep GLOBAL\n"
      "\n"
      "Raw bytes go to standard output, checked against their checksums as they pass; of a\n"
      "tensor its elements in row-major order, little-endian. What is no text is not\n"
      "printed on a terminal. A pickle is never run: its opcodes are read as bytes, with\n"
      "their offsets and arguments, so that it can be seen which functions it names.\n"
      "--json has a meaning for errors alone.\n"
      "Exit code: 0 done; 1 the item is damaged; 2 there is none of that name, or could\n"
      "not read it.");
  return {line, [options](Console& console) { return Cat(console, *options); }};
}

}  // namespace dsckpt::tools
