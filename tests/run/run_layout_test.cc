// Names in a run directory, and the order of saves, without files.

#include "run/run_layout.h"

#include "io/directory.h"
#include "io/temporary.h"
#include "run/save_order.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;

TEST_CASE("a name that readers hide is one that writers refuse") {
  for (const char* name :
       {"", ".hidden", "latest", "a.incomplete-", "a.incomplete-b", "a.removed-", "a.removed-b",
        "a.replaced-", "a.replaced-b", ".incomplete-x", "x.removed-.dsckpt"}) {
    INFO(name);
    CHECK(IsHiddenRunEntry(name));
    CHECK(run::CheckCheckpointName(name, "").code() == StatusCode::kInvalidArgument);
  }
  for (const char* name : {"a", "step-0000000001", "latest2", "a.incomplete", "removed-a", "a b",
                           "\xc3\xa9", "global_step5"}) {
    INFO(name);
    CHECK_FALSE(IsHiddenRunEntry(name));
    CHECK(run::CheckCheckpointName(name, "").ok());
  }
  // Names that another system takes for something else stand where a reader finds them.
  for (const char* name : {"Latest", "a.Removed-b", "a:b", "nul", "a."}) {
    INFO(name);
    CHECK_FALSE(IsHiddenRunEntry(name));
    CHECK(run::CheckCheckpointName(name, "").code() == StatusCode::kInvalidArgument);
  }
}

TEST_CASE("every name that is made is parsed as what it is") {
  using run::EntryKind;
  using run::Mark;
  const run::AttemptPaths beside{"", "save.v2", run::AttemptId("0123abcd", "7")};
  run::AttemptPaths inside = beside;
  inside.in_place = true;
  const auto base = [](const std::string& path) { return path.substr(path.rfind('/') + 1); };
  const TempDir dir;
  REQUIRE(io::WriteSmallFile(dir / "x", {}).ok());
  const auto temporary = io::CreateTemporary(io::ResolveTarget(dir / "x").value(), false, {});
  struct Row {
    std::string entry;
    EntryKind kind;
    std::optional<Mark> mark = {};
    std::string name = {}, attempt = {};
  };
  const Row rows[] = {
      {DefaultCheckpointName(7), EntryKind::kOther},
      {DefaultShardName(3), EntryKind::kOther},
      {std::string(kLatestName), EntryKind::kLatest},
      {std::string(kManifestName), EntryKind::kManifest},
      {"dsckpt.manifest.00000", EntryKind::kManifest},
      {"dsckpt.manifest.", EntryKind::kOther},
      {"dsckpt.manifest.0000x", EntryKind::kOther},
      {std::string(run::kRunLockName), EntryKind::kRunLock},
      {run::EntryLockName("save.v2"), EntryKind::kEntryLock, {}, "save.v2"},
      {base(temporary->path), EntryKind::kTemporary},
      {base(beside.Directory()), EntryKind::kMarked, Mark::kIncomplete, "save.v2", "0123abcd-7"},
      {base(beside.Tombstone()), EntryKind::kMarked, Mark::kRemoved, "save.v2", "0123abcd-7"},
      {base(beside.Replaced()), EntryKind::kMarked, Mark::kReplaced, "save.v2", "0123abcd-7"},
      {base(inside.Directory()), EntryKind::kMarked, Mark::kIncomplete, "", "0123abcd-7"},
      {base(inside.Tombstone()), EntryKind::kMarked, Mark::kRemoved, "", "0123abcd-7"},
      // Names that nobody made.
      {"", EntryKind::kHidden},
      {".", EntryKind::kHidden},
      {".hidden", EntryKind::kHidden},
      {"a.removed-", EntryKind::kHidden, Mark::kRemoved},
      {".incomplete-", EntryKind::kHidden, Mark::kIncomplete},
      {"a.incomplete-b.removed-c", EntryKind::kMarked, Mark::kRemoved, "a.incomplete-b", "c"},
      {"a.removed-b.incomplete-c", EntryKind::kMarked, Mark::kIncomplete, "a.removed-b", "c"},
      {".dsckpt-.lock", EntryKind::kHidden},
      {".dsckpt-x.lock.lock", EntryKind::kEntryLock, {}, "x.lock"},
      {".dsckpt-0123456789abcdef-0123456789abcdeg.tmp", EntryKind::kHidden},
      {".dsckpt-0123456789abcdef-0123456789abcdef0.tmp", EntryKind::kHidden},
      {".dsckpt-0123456789abcdef.tmp", EntryKind::kHidden},
      {"dsckpt-0123456789abcdef-0123456789abcdef.tmp", EntryKind::kOther},
      {"latest ", EntryKind::kOther},
      {"Latest", EntryKind::kOther},
      {"a.incomplete", EntryKind::kOther},
      {std::string("a\0b", 3), EntryKind::kOther},
      {"\xff", EntryKind::kOther},
  };
  for (const Row& row : rows) {
    INFO(row.entry);
    const run::EntryName parsed = run::ParseEntry(row.entry);
    CHECK(static_cast<int>(parsed.kind) == static_cast<int>(row.kind));
    CHECK((parsed.mark == row.mark));
    CHECK(parsed.name == row.name);
    CHECK(parsed.attempt == row.attempt);
    CHECK(run::ParseMarkedEntry(row.entry).has_value() == (row.kind == EntryKind::kMarked));
    // What is not left to what stands there is never taken for a checkpoint, but for a manifest,
    // which is a file, and not in a run directory.
    if (row.kind != EntryKind::kManifest) {
      CHECK(IsHiddenRunEntry(row.entry) == (row.kind != EntryKind::kOther));
    }
  }
  CHECK(beside.Directory() == "/save.v2.incomplete-0123abcd-7");
  CHECK(inside.Directory() == "/save.v2/.incomplete-0123abcd-7");
}

TEST_CASE("ids of attempts belong to one session") {
  CHECK(run::AttemptId("0123abcd", "7") == "0123abcd-7");
  CHECK(run::IsAttemptOf("0123abcd-7", "0123abcd"));
  for (const char* other : {"0123abcd", "0123abcde-7", "0123abc-7", "-7", "", "x0123abcd-7"}) {
    CHECK_FALSE(run::IsAttemptOf(other, "0123abcd"));
  }
  CHECK_FALSE(run::IsAttemptOf("0123abcd-7", run::kFilesSession));
  CHECK(run::IsAttemptOf(run::AttemptId(run::kFilesSession, "1-2"), run::kFilesSession));
}

TEST_CASE("latest: the text that is written is the name that is read") {
  for (const char* name : {"a", "step-0000000001", "a b", "\xc3\xa9"}) {
    CHECK(ParseLatest(LatestText(name)) == name);
    CHECK(ParseLatest(" \t" + std::string(name) + "\r\n") == name);
  }
  for (const char* text : {"", "\n", "..", "a/b", ".hidden", "latest", "a.removed-x", "\xff\n"}) {
    INFO(text);
    CHECK_FALSE(ParseLatest(text));
  }
  CHECK_FALSE(ParseLatest(std::string(256, 'a')));
}

TEST_CASE("shards may have the names that a manifest may hold") {
  const std::pair<std::string, const char*> refused[] = {
      {"", "is empty"},
      {"a/b", "is no bare file name"},
      {std::string("a\0", 2), "is no bare file name"},
      {".", "begins with a dot"},
      {".a", "begins with a dot"},
      {"\xff", "is not UTF-8"},
      {std::string(256, 'a'), "is too long"},
      {"latest", "a commit uses"},
      {"dsckpt.manifest", "a commit uses"},
      {"a.replaced-", "only a commit puts there"},
      {"a.Replaced-", "only a commit puts there"},
      {"LATEST", "a commit uses"},
      {"Dsckpt.Manifest", "a commit uses"},
      {"dsckpt.manifest.0", "a commit uses"},
      {"DSCKPT.MANIFEST.17", "a commit uses"},
      {"a\\b", "backslash or a colon"},
      {"a:b", "backslash or a colon"},
      {"a\tb", "control character"},
      {"a\x7f", "control character"},
      {"a.", "ends with a dot"},
      {"a ", "ends with a dot or a space"},
      {"con", "device"},
      {"Prn.dsckpt", "device"},
      {"AUX.a.b", "device"},
      {"nul .dsckpt", "device"},
      {"CONIN$", "device"},
      {"conout$.x", "device"},
      {"COM1", "device"},
      {"lpt9.dsckpt", "device"},
      {"Com\xc2\xb3", "device"},
  };
  for (const auto& [name, why] : refused) {
    INFO(name);
    for (const Status& status : {run::CheckShardName(name), run::CheckCheckpointName(name, "")}) {
      CHECK(status.code() == StatusCode::kInvalidArgument);
      CHECK(status.message().find(why) != std::string::npos);
    }
  }
  for (const std::string& name :
       {std::string(255, 'a'), std::string("a b"), std::string("x"), std::string("com0"),
        std::string("com10"), std::string("comet"), std::string("a.con"), std::string("\xc3\xa9"),
        std::string("later"), std::string("dsckpt.manifest.a"), std::string("dsckpt.manifests"),
        std::string("dsckpt.manifest.1a"), std::string("a'<>\"|?*"), std::string(" a")}) {
    INFO(name);
    CHECK(run::CheckShardName(name).ok());
  }
  // A checkpoint's name has to leave room for the mark and the id of an attempt.
  const std::string id(20, '1');
  CHECK(run::CheckCheckpointName(std::string(255 - 12 - 20, 'a'), id).ok());
  CHECK_FALSE(run::CheckCheckpointName(std::string(255 - 12 - 19, 'a'), id).ok());
}

TEST_CASE("checkpoints of earlier versions keep the names that new ones may not get") {
  for (const char* name : {"2026-11-30T12:00", "x.", "nul", "a\\b", "Latest"}) {
    INFO(name);
    CHECK(run::IsCheckpointName(name));
    CHECK(ParseLatest(LatestText(name)) == name);
    CHECK_FALSE(run::CheckCheckpointName(name, "").ok());
  }
  for (const char* name : {"", ".a", "a/b", "latest", " a", "a.removed-1", "dsckpt.manifest"}) {
    INFO(name);
    CHECK_FALSE(run::IsCheckpointName(name));
  }
}

TEST_CASE("parts of a manifest have names that shards may not get") {
  CHECK(ManifestPartName(0) == "dsckpt.manifest.00000");
  CHECK(ManifestPartName(1023) == "dsckpt.manifest.01023");
  for (const char* name : {"dsckpt.manifest.00000", "dsckpt.manifest.01023"}) {
    CHECK(IsManifestPartName(name));
  }
  for (const char* name : {"dsckpt.manifest.00000", "dsckpt.manifest.7", "DSCKPT.manifest.1"}) {
    CHECK(run::CheckShardName(name).message().find("a commit uses") != std::string::npos);
  }
  for (const char* name : {"dsckpt.manifest", "dsckpt.manifest.", "dsckpt.manifest.0a",
                           "dsckpt.manifest0", "xdsckpt.manifest.0", "dsckpt.manifest.7",
                           "dsckpt.manifest.20261130", "dsckpt.manifest.01024"}) {
    INFO(name);
    CHECK_FALSE(IsManifestPartName(name));
  }
  CHECK(run::CheckShardName("dsckpt.manifest.0a").ok());
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
