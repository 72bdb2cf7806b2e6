// FindEvents: what was planted in a run is found where it was planted, and nothing else is.

#include <filesystem>
#include <string>
#include <vector>

#include "dsckpt/trajectory_events.h"
#include "tests/support/catch.h"
#include "tests/support/planted_run.h"
#include "tests/support/temp_dir.h"

using namespace dsckpt;
using Strings = std::vector<std::string>;

namespace {

Strings Texts(const Trajectory& run, const std::vector<TrajectoryEvent>& events) {
  Strings texts;
  for (const TrajectoryEvent& event : events) {
    std::string text = std::string(TrajectoryEventName(event.kind)) + " " +
                       (event.step ? std::to_string(*event.step) : "?");
    if (event.other) text += " " + std::to_string(run.step(*event.other).value_or(-1));
    if (event.tensor) text += " " + std::string(run.tensor(*event.tensor).name);
    texts.push_back(text);
  }
  return texts;
}

Strings EventsOf(const std::string& path) {
  const auto run = Trajectory::Open(path);
  INFO(run.status().ToString());
  REQUIRE(run.ok());
  return Texts(*run, FindEvents(*run, SelectAll(*run)));
}

using Model = std::vector<planted::Tensor>;

/// Saves one model for each of `steps`, changed by `change` before.
template <typename Change>
Strings EventsWhen(const std::vector<int64_t>& steps, const Change& change) {
  TempDir dir;
  Model model = {{"a", {8}, std::vector<float>(8, 1)}, {"b", {8}, std::vector<float>(8, 2)}};
  for (size_t i = 0; i < steps.size(); ++i) {
    for (auto& tensor : model) tensor.values[0] += 0.01f;
    change(i, model);
    planted::Save(planted::PathOf(dir.path(), steps[i]), model, steps[i]);
  }
  return EventsOf(dir.path());
}

}  // namespace

TEST_CASE("events: each planted thing at its step and tensor, and nothing else") {
  TempDir dir;
  planted::WriteRun(dir / "run");
  CHECK(EventsOf(dir / "run") ==
        Strings{"jump 9000 8000 " + planted::kSpiking, "missing_step 11000", "duplicate 14000 7000",
                "nan 16000 15000 " + planted::kWithNan, "frozen 18000 0 " + planted::kFrozen});
}

TEST_CASE("events: a jump has its norm and what it exceeds, NaN their number") {
  TempDir dir;
  planted::WriteRun(dir / "run");
  const auto run = Trajectory::Open(dir / "run");
  REQUIRE(run.ok());
  const auto events = FindEvents(*run, SelectAll(*run));
  REQUIRE(events.size() == 5);
  CHECK(*events[0].value > 5 * *events[0].threshold);
  CHECK(events[1].value == 1.0);
  CHECK(events[3].value == 1.0);
}

TEST_CASE("events: names and forms that change") {
  CHECK(EventsWhen({0, 1, 2}, [](size_t i, Model& model) {
          if (i == 1) model.push_back({"c", {2, 4}, std::vector<float>(8, 3)});
          if (i == 2) model.back() = {"c", {4, 2}, std::vector<float>(8, 4)};
          if (i == 2) model.erase(model.begin());
        }) == Strings{"added 1 c", "reshaped 2 1 c", "removed 2 1 a"});
}

TEST_CASE("events: all zero from some step on, or always") {
  const Strings died = EventsWhen({0, 1, 2, 3}, [](size_t i, Model& model) {
    if (i >= 2) model[1].values.assign(8, 0);
  });
  CHECK(died == Strings{"dead 2 1 b"});
  const Strings never =
      EventsWhen({0, 1, 2}, [](size_t, Model& model) { model[1].values.assign(8, 0); });
  CHECK(never == Strings{"dead 2 b"});
}

TEST_CASE("events: steps are missing only where they are even on both sides") {
  const auto nothing = [](size_t, Model&) {};
  CHECK(EventsWhen({0, 10, 20, 30, 60, 70, 80}, nothing) == Strings{"missing_step 40"});
  CHECK(EventsWhen({0, 10, 20, 40, 50, 70, 80}, nothing) ==
        Strings{"missing_step 30", "missing_step 60"});
  CHECK(EventsWhen({0, 10, 20, 30, 50, 70, 90}, nothing).empty());
  CHECK(EventsWhen({0, 1, 2, 4, 8, 16, 32}, nothing).empty());
}
