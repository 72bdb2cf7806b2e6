// Names in a run directory, and the order of saves, without files.

#include "run/run_layout.h"

#include "run/save_order.h"
#include "tests/catch.h"

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

TEST_CASE("what a resume takes") {
  const Records saves = {{"x", {}, 0}, {"a", 100, 1}, {"b", 50, 2}};
  CHECK(run::FindLatest(saves, "a") == 1);
  CHECK(run::FindLatest(saves, "gone") == 2);
  CHECK(run::FindLatest(saves, std::nullopt) == 2);
  CHECK(run::FindLatest(Records{{"x", {}, 0}, {"y", {}, 0}}, std::nullopt) == 1);
  CHECK_FALSE(run::FindLatest(Records{}, "a"));
}
