// Listings of many things: several operands, patterns, trees of names, narrow terminals, runs.

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "dsckpt/engine.h"
#include "dsckpt/provider.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/command.h"
#include "tests/tools/samples.h"

using namespace dsckpt;
using Json = nlohmann::ordered_json;

namespace {

/// A plain file with tensors U8 [1] of these names.
void WriteNames(const std::string& path, const std::vector<std::string>& names) {
  std::string header = "{";
  for (size_t i = 0; i < names.size(); ++i) {
    header += (i == 0 ? "\"" : ",\"") + names[i] +
              R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" + std::to_string(i) + "," +
              std::to_string(i + 1) + "]}";
  }
  WriteWholeFile(path, Safetensors(header + "}", Counting(names.size())));
}

/// Of an optimizer: 12 layers, 4 modules, 2 moments.
std::vector<std::string> OptimizerNames() {
  std::vector<std::string> names;
  for (int layer = 0; layer < 12; ++layer) {
    for (const std::string module : {"attention.query_key_value.weight", "attention.dense.weight",
                                     "mlp.dense_h_to_4h.weight", "mlp.dense_4h_to_h.bias"}) {
      for (const std::string moment : {"exp_avg", "exp_avg_sq"}) {
        names.push_back("optimizer/state/gpt_neox.layers." + std::to_string(layer) + "." + module +
                        "/" + moment);
      }
    }
  }
  return names;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    while (line.ends_with('\r')) line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

void SaveAttributes(const std::string& path, int64_t step, double loss, bool in_tree) {
  const auto provider = MakeProvider([&](Description& d) {
    d.Attribute("step", Value(step));
    if (in_tree) d.Leaf("loss", Value(loss));
    if (!in_tree) d.Attribute("loss", Value(loss));
    d.Begin(NodeKind::kDict, "model");
    d.End();
  });
  REQUIRE(SaveFile(path, *provider, {}).ok());
}

}  // namespace

TEST_CASE("names that do not fit lose what they have in common, so that rows differ") {
  TempDir dir;
  const std::string path = dir / "a.safetensors";
  WriteNames(path, OptimizerNames());
  for (const int width : {60, 80}) {
    std::set<std::string> names;
    size_t rows = 0;
    const Outcome outcome = RunOnTerminal({"inspect", path, "--limit", "0"}, width);
    for (const std::string& line : Lines(outcome.out)) {
      if (line.find(" [1] ") == std::string::npos) continue;
      ++rows;
      const std::string name = line.substr(0, line.find(' '));
      INFO(line);
      CHECK(line.size() <= static_cast<size_t>(width));
      CHECK(name.starts_with("..."));
      // The number of the layer is there.
      CHECK(name.find_first_of("0123456789") != std::string::npos);
      names.insert(name);
    }
    CHECK(rows == 96);
    CHECK(names.size() == 96);
  }
}

TEST_CASE("inspect --collapse: one row for names that differ in numbers") {
  TempDir dir;
  const std::string path = dir / "a.safetensors";
  std::vector<std::string> names = OptimizerNames();
  names.push_back("optimizer.0x1");
  WriteNames(path, names);
  const std::string text =
      RunOk({"inspect", path, "--collapse", "-f", "*dense.weight/exp_avg"}).out;
  CHECK(Contains(text,
                 "optimizer/state/gpt_neox.layers.#.attention.dense.weight/exp_avg    x12  "
                 "U8     [1]    12 B\n"));
  const std::string all = RunOk({"inspect", path, "--collapse"}).out;
  CHECK(Contains(all, "\noptimizer.0x1 "));
  CHECK_FALSE(Contains(all, "layers.3"));
  // More than 40 rows on a terminal, without being asked.
  CHECK(Contains(RunOnTerminal({"inspect", path}, 200).out, "layers.#."));
  CHECK_FALSE(Contains(RunOnTerminal({"inspect", path, "--no-collapse"}, 200).out, "layers.#."));
  CHECK_FALSE(Contains(RunOk({"inspect", path}).out, "layers.#."));
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"--collapse", "--no-collapse"},
        {"--json", "--collapse"},
        {"--depth", "2"},
        {"--json", "--tree", "--depth", "2"}}) {
    std::vector<std::string> whole = {"inspect", path};
    whole.insert(whole.end(), args.begin(), args.end());
    CHECK(RunTool(whole).code == 2);
  }
}

TEST_CASE("inspect --tree of a file without a tree is made of its names") {
  TempDir dir;
  const std::string path = dir / "a.safetensors";
  WriteNames(path, {"m.layers.0.a", "m.layers.0.b", "m.layers.10.a", "m.layers.10.b",
                    "m.layers.2.a", "m.norm", "m.norm.bias", "x"});
  const std::string item = ": U8 [1]  1 B\n";
  const auto tree = [&](std::vector<std::string> args) {
    args.insert(args.begin(), {"inspect", path, "--tree"});
    const std::string text = RunTool(args, {.setenv = {"LC_ALL=C"}}).out;
    return text.substr(text.find("no state tree"));
  };
  const std::string head = "no state tree: names split at '.' and '/'\n";
  CHECK(tree({}) == head + "|-- m: 7 items, 7 B\n" +
                        "|   |-- layers: 5 items, 5 B\n"
                        "|   |   |-- 0: 2 items, 2 B\n" +
                        "|   |   |   |-- a" + item + "|   |   |   `-- b" + item +
                        "|   |   |-- 2.a" + item + "|   |   `-- 10: 2 items, 2 B\n" +
                        "|   |       |-- a" + item + "|   |       `-- b" + item +
                        "|   `-- norm: U8 [1]  1 B; 2 items, 2 B\n" + "|       `-- bias" + item +
                        "`-- x" + item);
  CHECK(tree({"--depth", "1"}) == head + "|-- m: 7 items, 7 B\n`-- x" + item);
  CHECK(tree({"--collapse", "--depth", "3"}) ==
        head + "|-- m: 7 items, 7 B\n" + "|   |-- layers: 5 items, 5 B\n" +
            "|   |   |-- #: x2, 4 items, 4 B\n" + "|   |   `-- 2.a" + item +
            "|   `-- norm: U8 [1]  1 B; 2 items, 2 B\n" + "|       `-- bias" + item + "`-- x" +
            item);
  const std::string model = dir / "model";
  std::filesystem::create_directory(model);
  WriteNames(model + "/1.safetensors", {"m.layers.0.a", "m.layers.0.b"});
  WriteNames(model + "/2.safetensors", {"m.norm"});
  WriteWholeFile(model + "/model.safetensors.index.json",
                 R"({"weight_map":{"m.layers.0.a":"1.safetensors",)"
                 R"("m.layers.0.b":"1.safetensors","m.norm":"2.safetensors"}})");
  const std::string whole =
      RunTool({"inspect", model, "--tree", "-x", "*.b"}, {.setenv = {"LC_ALL=C"}}).out;
  CHECK(whole.ends_with("\n\n`-- m: 2 items, 2 B\n    |-- layers.0.a" + item + "    `-- norm" +
                        item));
  // A name of dots alone is no reason to run out of stack.
  WriteNames(path, {std::string(60000, '.')});
  CHECK(RunTool({"inspect", path, "--tree"}).code == 0);
}

TEST_CASE("several operands: text one after the other, JSON a document a line") {
  TempDir dir;
  const std::string a = dir / "a.safetensors", b = dir / "b.safetensors", run = dir / "run";
  WriteNames(a, {"one"});
  WriteNames(b, {"two", "three"});
  std::filesystem::create_directory(run);

  const Outcome text = RunTool({"inspect", a, dir / "missing", b});
  CHECK(text.code == 2);
  CHECK(Contains(text.err, "missing"));
  CHECK(Contains(text.out, "\none "));
  CHECK(Contains(text.out, "\ntwo "));
  const auto documents = Lines(RunOk({"inspect", "--json", a, b}).out);
  REQUIRE(documents.size() == 2);
  CHECK(Json::parse(documents[0])["tensors"].size() == 1);
  CHECK(Json::parse(documents[1])["tensors"].size() == 2);

  CHECK(RunTool({"import", a, b, "-o", dir / "none"}).code == 2);
  const auto imported = Lines(RunOk({"import", "--json", a, b, "-o", run}).out);
  REQUIRE(imported.size() == 2);
  CHECK(Json::parse(imported[1])["output"] == run + "/b.dsckpt");
  CHECK(RunTool({"verify", run + "/a.dsckpt", run + "/b.dsckpt"}).code == 0);
  CHECK(RunTool({"import", a, b, "-o", run}).code == 2);  // They exist.

  const auto runs = Lines(RunOk({"ls", "--json", run, run}).out);
  REQUIRE(runs.size() == 2);
  CHECK(Json::parse(runs[0])["checkpoints"].size() == 2);
  CHECK(Contains(RunOk({"ls", run, run}).out, "\n\n" + run + ":\n"));
}

TEST_CASE("ls --attr: attributes, else values of the state, and --limit the newest") {
  TempDir dir;
  SaveAttributes(dir / "step-1.dsckpt", 1, 2.5, false);
  SaveAttributes(dir / "step-2.dsckpt", 2, 2.25, true);
  const Outcome table = RunOk({"ls", dir.path(), "--attr", "loss", "--attr", "model"});
  INFO(table.out);
  CHECK(Contains(table.out, "  loss  model"));
  CHECK(Contains(table.out, "   2.5      -\n"));
  CHECK(Contains(table.out, "  2.25      -"));
  const Json json =
      Json::parse(RunOk({"ls", dir.path(), "--json", "--attr", "loss", "--attr", "nix"}).out);
  CHECK(json["checkpoints"][0]["attributes"] == Json{{"loss", 2.5}, {"nix", nullptr}});
  CHECK(json["checkpoints"][1]["attributes"] == Json{{"loss", 2.25}, {"nix", nullptr}});

  const Outcome newest = RunOk({"ls", dir.path(), "--limit", "1"});
  CHECK(Contains(newest.out, "step-2.dsckpt"));
  CHECK_FALSE(Contains(newest.out, "step-1.dsckpt"));
  CHECK(Contains(newest.out, "... 1 earlier (--limit 0 lists all)"));
  for (int step = 3; step <= 45; ++step) {
    SaveAttributes(dir / ("step-" + std::to_string(step) + ".dsckpt"), step, 1, false);
  }
  const Outcome terminal = RunOnTerminal({"ls", dir.path()}, 80);
  CHECK(Contains(terminal.out, "... 5 earlier"));
  CHECK(Contains(terminal.out, "step-45.dsckpt"));
  CHECK(Lines(RunOk({"ls", dir.path()}).out).size() == 46);
}

TEST_CASE("patterns that take nothing: exit code 1, as grep has it") {
  TempDir dir;
  const std::string path = dir / "z";  // One letter, which other words hold too.
  WriteNames(path, {"one"});
  for (const std::string command : {"inspect", "hash"}) {
    CHECK(RunTool({command, path, "-f", "o*"}).code == 0);
    const Outcome outcome = RunTool({command, path, "-f", "z*"});
    CHECK(outcome.code == 1);
    CHECK(Contains(outcome.err, path + ": no name is taken"));
  }
  WriteWholeFile(path, std::string(300, '\0'));
  CHECK(Contains(RunTool({"inspect", path}).err, path + ": begins with zeros"));
}

TEST_CASE("ls --digest --time: one digest of all tensors, and a time in UTC") {
  TempDir dir;
  SaveAttributes(dir / "step-2.dsckpt", 2, 1, false);
  const std::string digest = RunOk({"hash", "--tree", dir / "step-2.dsckpt"}).out.substr(0, 32);
  const auto json = Json::parse(RunOk({"ls", dir.path(), "--json", "--digest", "--time"}).out);
  CHECK(json["checkpoints"][0]["tree_digest"] == digest);
  const std::string time = json["checkpoints"][0]["time"];
  CHECK(time.size() == 20);
  CHECK(time.substr(0, 2) == "20");
  CHECK(time.ends_with("Z"));
  const std::string table = RunOk({"ls", dir.path(), "--digest", "--time"}).out;
  CHECK(table.find(digest.substr(0, 12)) != std::string::npos);
  CHECK(table.find(time) != std::string::npos);
}

TEST_CASE("ls: plain safetensors files of a run are checkpoints as well") {
  TempDir dir;
  WriteNames(dir / "step-10.safetensors", {"a"});
  WriteNames(dir / "step-9.safetensors", {"a"});
  const auto plain = Json::parse(RunOk({"ls", dir.path(), "--json"}).out);
  REQUIRE(plain["checkpoints"].size() == 2);
  CHECK(plain["checkpoints"][0]["step"] == 9);
  CHECK(plain["checkpoints"][1]["bytes"] ==
        std::filesystem::file_size(dir / "step-10.safetensors"));
  CHECK(plain["ignored_entries"].empty());
  SaveAttributes(dir / "step-11.dsckpt", 11, 1, false);
  SaveAttributes(dir / "step-8.dsckpt", 8, 1, false);
  const auto mixed = Json::parse(RunOk({"ls", dir.path(), "--json"}).out);
  std::vector<int> steps;
  for (const auto& each : mixed["checkpoints"]) steps.push_back(each["step"]);
  CHECK(steps == std::vector<int>{8, 9, 10, 11});
}
