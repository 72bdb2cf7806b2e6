// dsckpt hash: digests of tensors, those of plain safetensors too.

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "merge/metadata.h"
#include "merge/paths.h"
#include "tools/commands.h"
#include "tools/items.h"
#include "tools/operand.h"
#include "tools/terminal/format.h"
#include "tools/terminal/json.h"
#include "tools/terminal/progress.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

struct Options {
  std::vector<std::string> paths;
  NameFilter names;
  bool tree = false, duplicates = false;
  std::string check;  // file; empty: print
};

using Digests = std::vector<NamedDigest>;

/// A tensor under a name, and how its digest is found.
struct Work {
  std::string name;
  uint64_t bytes = 0;
  std::function<Result<Hash128>()> compute;
};

Result<Digests> Compute(Console& console, const std::string& path, const std::vector<Work>& work) {
  uint64_t total = 0, done = 0;
  for (const Work& each : work) total += each.bytes;
  ProgressBar bar(console, SafeText(path));
  Digests digests;
  for (const Work& each : work) {
    DSCKPT_ASSIGN_OR_RETURN(const Hash128 digest, each.compute());
    digests.push_back({each.name, digest});
    done += each.bytes;
    bar.Update(done, total);
  }
  std::sort(digests.begin(), digests.end(),
            [](const NamedDigest& a, const NamedDigest& b) { return a.name < b.name; });
  return digests;
}

/// Stored tensors and their further names, those that plain safetensors record included: an import
/// changes nothing.
Result<Digests> HashFile(Console& console, const std::string& path, const NameFilter& names) {
  DSCKPT_ASSIGN_OR_RETURN(const File file, File::Open(path, {.map = false}));
  std::vector<Work> work;
  const auto add = [&](std::string name, const TensorInfo& info) {
    if (!names.Takes(name)) return;
    work.push_back(
        {std::move(name), info.raw_bytes, [&file, info] { return file.ComputeDigest(info); }});
  };
  for (uint32_t i = 0; i < file.tensor_count(); ++i) {
    add(std::string(file.tensor(i).name), file.tensor(i));
  }
  for (uint32_t i = 0; i < file.alias_count(); ++i) {
    add(std::string(file.alias(i).name), file.tensor(file.alias(i).target));
  }
  DSCKPT_ASSIGN_OR_RETURN(const merge::FileMetadata metadata, merge::ReadMetadata(file));
  for (const merge::Tie& tie : metadata.ties) {
    DSCKPT_ASSIGN_OR_RETURN(const TensorInfo owner, file.FindTensor(tie.owner));
    add(tie.name, owner);
  }
  return Compute(console, path, work);
}

/// Logical tensors, those in parts put together. Shard by shard, so that each is opened once.
Result<Digests> HashCheckpoint(Console& console, const Checkpoint& checkpoint,
                               const std::string& path, const NameFilter& names) {
  std::vector<std::pair<uint32_t, uint32_t>> order;  // shard of the first piece, tensor
  for (uint32_t i = 0; i < checkpoint.tensor_count(); ++i) {
    if (!names.Takes(checkpoint.tensor(i).name)) continue;
    DSCKPT_RETURN_IF_ERROR(checkpoint.CheckCoverage(i));
    const auto pieces = checkpoint.Pieces(i);
    order.emplace_back(pieces.empty() ? 0 : pieces[0].shard, i);
  }
  std::sort(order.begin(), order.end());
  std::vector<Work> work;
  for (const auto& [shard, tensor] : order) {
    const LogicalTensorInfo info = checkpoint.tensor(tensor);
    work.push_back({std::string(info.name), info.bytes,
                    [&checkpoint, i = tensor] { return checkpoint.ComputeDigest(i); }});
  }
  return Compute(console, path, work);
}

Result<Digests> HashOperand(Console& console, const std::string& path, const NameFilter& names) {
  DSCKPT_ASSIGN_OR_RETURN(const Operand operand, ToOperand(path));
  if (operand.kind == OperandKind::kFile) return HashFile(console, operand.path, names);
  DSCKPT_ASSIGN_OR_RETURN(const Inputs inputs, OpenInputs(console, {path}));
  return HashCheckpoint(console, inputs.checkpoint, path, names);
}

std::string TreeText(const Digests& digests) { return HexDigest(TreeDigest(digests)); }

void PrintDigests(Console& console, const std::string& path, const Digests& digests, bool tree) {
  if (tree) {
    console.Print("{}  {}\n", TreeText(digests), TerminalName(path));
    return;
  }
  for (const NamedDigest& each : digests) {
    console.Print("{}  {}#{}\n", HexDigest(each.digest), TerminalName(path),
                  TerminalName(each.name));
  }
}

void WriteDigests(JsonWriter& json, const std::string& path, const Digests& digests, bool tree) {
  json.BeginObject(JsonWriter::Layout::kLines);
  json.Key("path").String(path);
  json.Key("tree_digest").String(TreeText(digests));
  json.Key("tensors").BeginArray(JsonWriter::Layout::kLines);
  for (const NamedDigest& each : digests) {
    if (tree) break;
    json.BeginObject();
    json.Key("name").String(each.name);
    json.Key("digest").String(HexDigest(each.digest));
    json.End();
  }
  json.End();
  json.End();
}

/// Something with a digest: a tensor, or without a name a whole path.
struct Hashed {
  std::string path;
  std::optional<std::string> name;
};
/// By digest, what has it; of those that are there once, nothing.
using Duplicates = std::map<std::string, std::vector<Hashed>>;

Duplicates FindDuplicates(const Options& options, const std::vector<Digests>& all) {
  Duplicates found;
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string& path = options.paths[i];
    if (options.tree) found[TreeText(all[i])].push_back({path, std::nullopt});
    for (const NamedDigest& each : all[i]) {
      if (!options.tree) found[HexDigest(each.digest)].push_back({path, each.name});
    }
  }
  std::erase_if(found, [](const auto& each) { return each.second.size() < 2; });
  return found;
}

void PrintDuplicates(Console& console, const Duplicates& duplicates) {
  bool first = true;
  for (const auto& [digest, holders] : duplicates) {
    if (!std::exchange(first, false)) console.Print("\n");
    for (const Hashed& each : holders) {
      console.Print("{}  {}{}{}\n", digest, TerminalName(each.path), each.name ? "#" : "",
                    each.name ? TerminalName(*each.name) : "");
    }
  }
}

void WriteDuplicates(JsonWriter& json, const Duplicates& duplicates) {
  json.BeginObject(JsonWriter::Layout::kLines);
  json.Key("schema").String("dsckpt.hash-duplicates/1");
  json.Key("duplicates").BeginArray(JsonWriter::Layout::kLines);
  for (const auto& [digest, holders] : duplicates) {
    json.BeginObject();
    json.Key("digest").String(digest);
    json.Key("holders").BeginArray();
    for (const Hashed& each : holders) {
      json.BeginObject();
      json.Key("path").String(each.path);
      json.Key("name");
      each.name ? json.String(*each.name) : json.Null();
      json.End();
    }
    json.End();
    json.End();
  }
  json.End();
  json.End();
}

int PrintOnlyDuplicates(Console& console, const Options& options) {
  std::vector<Digests> all;
  for (const std::string& path : options.paths) {
    auto digests = HashOperand(console, path, options.names);
    if (!digests.ok()) return console.Fail(digests.status());
    all.push_back(std::move(digests).value());
  }
  const Duplicates duplicates = FindDuplicates(options, all);
  if (console.json()) {
    JsonWriter json(console);
    WriteDuplicates(json, duplicates);
  } else {
    PrintDuplicates(console, duplicates);
  }
  if (!duplicates.empty()) return kExitOk;
  console.Note(options.tree ? "no two paths hold the same" : "no two tensors are the same");
  return kExitNo;
}

int Print(Console& console, const Options& options) {
  std::optional<JsonWriter> json;
  std::vector<Digests> all;
  int code = kExitOk;
  for (const std::string& path : options.paths) {
    auto digests = HashOperand(console, path, options.names);
    if (!digests.ok()) return console.Fail(digests.status());
    if (digests->empty() && options.names.any()) {
      console.Note(path + ": no name is taken by --filter and --exclude");
      code = kExitNo;
    }
    if (console.json()) {
      all.push_back(std::move(digests).value());
    } else {
      PrintDigests(console, path, *digests, options.tree);
    }
  }
  if (!console.json()) return code;
  json.emplace(console);
  json->BeginObject(JsonWriter::Layout::kLines);
  json->Key("schema").String("dsckpt.hash/1");
  json->Key("paths").BeginArray(JsonWriter::Layout::kLines);
  for (size_t i = 0; i < all.size(); ++i) {
    WriteDigests(*json, options.paths[i], all[i], options.tree);
  }
  json->End();
  json->End();
  return code;
}

/// A line of an earlier listing. Without `name`: of a whole.
struct Expected {
  std::string digest, path;
  std::optional<std::string> name;
};

Result<std::vector<Expected>> ReadListing(const std::string& path) {
  std::ifstream in(path);
  if (!in) return Status(StatusCode::kNotFound, "cannot open " + path).WithPath(path);
  std::vector<Expected> lines;
  uint64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const auto wrong = [&] {
      return Status(StatusCode::kInvalidArgument,
                    Format("{}: line {} is no line of dsckpt hash", path, number))
          .WithPath(path);
    };
    const size_t end = line.find("  ");
    const bool hex = line.find_first_not_of("0123456789abcdef") == end;
    if (end != 32 || !hex) return wrong();
    Expected expected{line.substr(0, end), "", std::nullopt};
    const std::string rest = line.substr(end + 2);
    // A '#' may stand in either part: the path ends where one that exists does.
    for (size_t at = rest.find('#');; at = rest.find('#', at + 1)) {
      expected.path = FromPrintable(rest.substr(0, at));
      if (at == std::string::npos) break;
      if (!merge::FileExists(expected.path)) continue;
      expected.name = FromPrintable(rest.substr(at + 1));
      break;
    }
    lines.push_back(std::move(expected));
  }
  if (!in.eof()) return Status(StatusCode::kIoError, "cannot read " + path).WithPath(path);
  if (lines.empty()) {
    return Status(StatusCode::kInvalidArgument, path + " holds no line of dsckpt hash")
        .WithPath(path);
  }
  return lines;
}

/// What one path holds now.
struct Now {
  Result<Digests> digests;
  std::map<std::string, std::string, std::less<>> by_name;
};

std::string Found(const Now& now, const Expected& expected) {
  if (!now.digests.ok()) return "";
  if (!expected.name) return TreeText(*now.digests);
  const auto there = now.by_name.find(*expected.name);
  return there == now.by_name.end() ? "" : there->second;
}

int Check(Console& console, const Options& options) {
  auto lines = ReadListing(options.check);
  if (!lines.ok()) return console.Fail(lines.status());
  std::erase_if(*lines, [&](const Expected& expected) {
    return expected.name && !options.names.Takes(*expected.name);
  });
  if (lines->empty()) {
    return console.Fail(Status(StatusCode::kInvalidArgument,
                               options.check + ": --filter and --exclude leave no line of it")
                            .WithPath(options.check));
  }
  std::map<std::string, Now> paths;
  uint64_t differ = 0, missing = 0;
  int code = kExitOk;
  for (const Expected& expected : *lines) {
    auto at = paths.find(expected.path);
    if (at == paths.end()) {
      Now now{HashOperand(console, expected.path, options.names), {}};
      if (!now.digests.ok()) {
        console.Note(Sentence(now.digests.status()));
        code = std::max(code, ExitCodeFor(now.digests.status().code()));
      } else {
        for (const auto& each : *now.digests) now.by_name[each.name] = HexDigest(each.digest);
      }
      at = paths.emplace(expected.path, std::move(now)).first;
    }
    const std::string found = Found(at->second, expected);
    if (found == expected.digest) continue;
    (found.empty() ? missing : differ) += 1;
    if (console.json()) continue;
    console.Print("{}{}{}: {}\n", TerminalName(expected.path), expected.name ? "#" : "",
                  expected.name ? TerminalName(*expected.name) : "",
                  found.empty() ? "MISSING" : "DIFFERS");
  }
  const uint64_t same = lines->size() - differ - missing;
  if (console.json()) {
    JsonWriter json(console);
    json.BeginObject(JsonWriter::Layout::kLines);
    json.Key("schema").String("dsckpt.hash-check/1");
    json.Key("equal").Uint(same);
    json.Key("different").Uint(differ);
    json.Key("missing").Uint(missing);
    json.End();
  } else {
    console.Print("{}: {} equal, {} different, {} missing\n", Count(lines->size(), "digest"), same,
                  differ, missing);
  }
  if (code == kExitFailed) return code;
  return differ + missing == 0 ? code : kExitNo;
}

}  // namespace

Command AddHash(Program& program) {
  auto options = std::make_shared<Options>();
  CommandLine line = program.AddCommand("hash", "Print digests of tensors, to compare files by");
  const Argument paths =
      line.Add("PATH", options->paths,
               "dsckpt or safetensors files; checkpoint, run or model directories")
          .Placeholder("...");
  AddNameFilter(line, options->names, "Only names that match a pattern; repeatable",
                "Not those that match; repeatable");
  const Argument tree =
      line.AddFlag("--tree", options->tree, "One digest a path, of all its names and digests");
  const Argument duplicates = line.AddFlag("--duplicates", options->duplicates,
                                           "Only what is there twice: tensors, or paths by --tree");
  line.Add("--check", options->check, "Compare with an earlier listing, as sha256sum does")
      .Excludes(paths)
      .Excludes(tree)
      .Excludes(duplicates)
      .Placeholder("FILE");
  line.Footer(
      "Examples:\n"
      "  dsckpt hash model.safetensors model.dsckpt\n"
      "  dsckpt hash --tree run/step-*\n"
      "  dsckpt hash --duplicates run/step-*\n"
      "  dsckpt hash run/step-0000001200 > digests && dsckpt hash --check digests\n"
      "\n"
      "DIGEST  PATH#NAME, by name. A digest is equal for equal content, dtype and shape,\n"
      "in whatever file and however stored; it is not cryptographic. dsckpt files hold\n"
      "theirs: nothing is read. Plain safetensors, and tensors in parts, are read as a\n"
      "whole. Objects and plain values of a state have no part in it. Of a run its\n"
      "latest checkpoint is taken. --check of a listing that was made with --filter or\n"
      "--exclude takes the same options again; lines of other names are not looked at.\n"
      "--duplicates has a paragraph for each digest; --json then is dsckpt.hash-duplicates/1:\n"
      "duplicates, each with digest and holders (path, name).\n"
      "Exit code: 0 done, or all equal; 1 some differ or are missing, a file is bad,\n"
      "patterns take nothing, or there are no duplicates; 2 could not do it.");
  return {
      line, [options](Console& console) {
        if (!options->check.empty()) return Check(console, *options);
        if (!options->paths.empty()) {
          return options->duplicates ? PrintOnlyDuplicates(console, *options)
                                     : Print(console, *options);
        }
        return console.Fail(Status(StatusCode::kInvalidArgument,
                                   "hash: give paths, or --check FILE (see dsckpt hash --help)"));
      }};
}

}  // namespace dsckpt::tools
