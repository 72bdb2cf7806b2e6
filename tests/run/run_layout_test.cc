// Names in a run directory, and the order of saves, without files.

#include "run/run_layout.h"

#include "run/save_order.h"
#include "tests/support/catch.h"

using namespace dsckpt;

TEST_CASE("a name that readers hide is one that writers refuse, and the other way round") {
  for (const char* name :
       {"", ".hidden", "latest", "a.incomplete-", "a.incomplete-b", "a.removed-", "a.removed-b",
        "a.replaced-", "a.replaced-b", ".incomplete-x", "x.removed-.dsckpt"}) {
    INFO(name);
    CHECK(IsHiddenRunEntry(name));
    CHECK(run::CheckCheckpointName(name, "").code() == StatusCode::kInvalidArgument);
  }
  for (const char* name : {"a", "step-0000000001", "latest2", "Latest", "a.incomplete", "removed-a",
                           "a b", "\xc3\xa9", "global_step5"}) {
    INFO(name);
    CHECK_FALSE(IsHiddenRunEntry(name));
    CHECK(run::CheckCheckpointName(name, "").ok());
  }
}

TEST_CASE("names of attempts are made and parsed in one way") {
  const run::AttemptPaths paths{"/run", "save.v2", "0123abcd-7"};
  const auto parse = [](const std::string& path) {
    return run::ParseMarkedName(path.substr(path.rfind('/') + 1));
  };
  using run::Mark;
  for (const auto& [path, mark] : {std::pair{paths.Directory(), Mark::kIncomplete},
                                   {paths.Tombstone(), Mark::kRemoved},
                                   {paths.Replaced(), Mark::kReplaced}}) {
    INFO(path);
    REQUIRE(parse(path));
    CHECK(parse(path)->mark == mark);
    CHECK(parse(path)->name == "save.v2");
    CHECK(parse(path)->attempt == "0123abcd-7");
    CHECK(IsHiddenRunEntry(path.substr(5)));
  }
  auto in_place = paths;
  in_place.in_place = true;
  CHECK(in_place.Directory() == "/run/save.v2/.incomplete-0123abcd-7");
  CHECK(parse(in_place.Directory())->name == "");
  // The last mark is the attempt's.
  CHECK(run::ParseMarkedName("a.removed-b.incomplete-c")->name == "a.removed-b");
  CHECK_FALSE(run::ParseMarkedName("a.removed-"));
  CHECK_FALSE(run::ParseMarkedName("step-0000000001"));
}

TEST_CASE("default names") {
  CHECK(DefaultCheckpointName(7) == "step-0000000007");
  CHECK(DefaultCheckpointName(12345678901) == "step-12345678901");
  CHECK(DefaultShardName(3) == "shard-00003.dsckpt");
  CHECK(DefaultShardName(123456) == "shard-123456.dsckpt");
  for (const int rank : {0, 99999, 100000}) CHECK(IsDefaultShardName(DefaultShardName(rank)));
  for (const char* name : {"shard-.dsckpt", "shard-0001.dsckpt", "shard-0000x.dsckpt",
                           "shard-00001.dsckpt2", "a-00001.dsckpt", "shard-dsckpt"}) {
    CHECK_FALSE(IsDefaultShardName(name));
  }
}

TEST_CASE("the step that a name says") {
  const std::pair<const char*, std::optional<int64_t>> rows[] = {{"step-0000001000", 1000},
                                                                 {"step1000.dsckpt", 1000},
                                                                 {"step_12", 12},
                                                                 {"checkpoint-500", 500},
                                                                 {"global_step30", 30},
                                                                 {"iter_0000100", 100},
                                                                 {"my-step-7-best", 7},
                                                                 {"model-step-3.of.dsckpt", 3},
                                                                 {"step-1-step-2", 2},
                                                                 {"step", {}},
                                                                 {"model.dsckpt", {}},
                                                                 {"misstep5", {}},
                                                                 {"step-5k", {}},
                                                                 {"epoch-3", {}},
                                                                 {"checkpoint500", {}},
                                                                 {"step-x9", {}},
                                                                 {"step-99999999999999999999", {}},
                                                                 {"12", {}},
                                                                 {"run7-step-4", 4}};
  for (const auto& [name, step] : rows) {
    INFO(name);
    CHECK(StepInName(name) == step);
  }
}

namespace {

using Records = std::vector<run::SaveRecord>;

std::vector<bool> Abandoned(const Records& saves, const char* latest) {
  return run::FindAbandoned(saves,
                            latest == nullptr ? std::nullopt : std::optional<std::string>(latest));
}

}  // namespace

TEST_CASE("names that latest or a directory could not keep are refused") {
  for (const char* name :
       {"a ", " a", "a\n", "a\t", "a\r", "\va", "dsckpt.manifest", "latest", ""}) {
    INFO(name);
    CHECK(run::CheckCheckpointName(name, "").code() == StatusCode::kInvalidArgument);
  }
  CHECK(run::CheckCheckpointName("a b", "").ok());
}

TEST_CASE("what training has left behind") {
  const Records straight = {{"a", 100, 1}, {"b", 200, 2}, {"c", 300, 3}};
  CHECK(Abandoned(straight, "c") == std::vector<bool>{false, false, false});
  CHECK(Abandoned(straight, "a") == std::vector<bool>{false, true, true});
  CHECK(Abandoned(straight, nullptr) == std::vector<bool>{false, false, false});
  CHECK(Abandoned(straight, "gone") == std::vector<bool>{false, false, false});
  // Back to 100, then 150.
  const Records back = {{"a", 100, 1}, {"b", 200, 2}, {"c", 300, 3}, {"d", 150, 4}};
  CHECK(Abandoned(back, "d") == std::vector<bool>{false, true, true, false});
  CHECK(Abandoned(back, "c") == std::vector<bool>{false, false, false, true});
  // The same step once more: the first is left behind.
  CHECK(Abandoned({{"a", 100, 1}, {"b", 100, 2}}, "b") == std::vector<bool>{true, false});
  // Copies of one checkpoint, and what no save of the run made.
  CHECK(Abandoned({{"a", 100, 1}, {"copy", 100, 1}}, "a") == std::vector<bool>{false, false});
  CHECK(Abandoned({{"x", 500, 0}, {"a", 100, 1}}, "a") == std::vector<bool>{false, false});
  CHECK(Abandoned({{"x", 500, 0}, {"a", 100, 1}, {"b", 50, 2}}, "x") ==
        std::vector<bool>{false, true, false});
  CHECK(Abandoned({{"a", {}, 1}, {"b", 50, 2}}, "b") == std::vector<bool>{false, false});
}

TEST_CASE("what training has left behind, by parents") {
  // 100, 110, 120; set back to 100, then 115: the old 110 is left behind although it is below.
  const Records back = {{"a", 100, 1, 0}, {"b", 110, 2, 1}, {"c", 120, 3, 2}, {"d", 115, 4, 1}};
  CHECK(Abandoned(back, "d") == std::vector<bool>{false, true, true, false});
  // Set back once more, to the branch that was left.
  CHECK(Abandoned(back, "c") == std::vector<bool>{false, false, false, true});
  // A lower step on a branch that was left says nothing of the line.
  const Records lower = {{"a", 100, 1, 0}, {"b", 50, 2, 1}, {"c", 120, 3, 1}};
  CHECK(Abandoned(lower, "c") == std::vector<bool>{false, true, false});
  // Retention has removed the parent: the newest before it is next.
  const Records gaps = {{"a", 100, 1, 0}, {"c", 120, 3, 2}, {"d", 105, 5, 2}};
  CHECK(Abandoned(gaps, "d") == std::vector<bool>{false, true, false});
  // Set back without a word: the parent is what `latest` named, the step says where from.
  const Records silent = {{"a", 100, 1, 0}, {"b", 200, 2, 1}, {"c", 150, 3, 2}};
  CHECK(Abandoned(silent, "c") == std::vector<bool>{false, true, false});
}

TEST_CASE("what a resume takes without latest") {
  const Records saves = {{"x", {}, 0}, {"a", 100, 1}, {"b", 50, 2}};
  CHECK(run::ResumeOrder(saves) == std::vector<size_t>{2, 1, 0});
  CHECK(run::ResumeOrder(Records{{"x", {}, 0}, {"y", {}, 0}}) == std::vector<size_t>{1, 0});
  CHECK(run::ResumeOrder(Records{}).empty());
}
