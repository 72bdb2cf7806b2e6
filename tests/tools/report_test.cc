// dsckpt report: what stands in the page. report_page.py looks at how a browser shows it.

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "dsckpt/dsckpt.h"
#include "tests/support/catch.h"
#include "tests/support/planted_run.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/command.h"
#include "tests/tools/report_samples.h"

using Json = nlohmann::ordered_json;

namespace {

std::string Content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  REQUIRE(out.good());
}

/// The text of a value of the page differs from the number by half a code at most.
void CheckClose(std::optional<double> shown, std::optional<double> measured,
                const std::string& about) {
  INFO(about);
  REQUIRE(shown.has_value() == measured.has_value());
  if (!shown) return;
  CHECK(std::abs(*shown - *measured) <= 1e-3 * std::abs(*measured) + 2e-5);
}

void CheckRow(const PageData& data, const dsckpt::Trajectory& run,
              std::span<const dsckpt::TensorMeasure> measures) {
  for (const dsckpt::TensorMeasure& measure : measures) {
    const std::string name(run.tensor(measure.tensor).name);
    const size_t row = data.RowOf(name), column = measure.checkpoint;
    const auto value = [&](const char* metric) { return data.Value(metric, row, column); };
    const std::string about = name + " at " + std::to_string(*run.step(measure.checkpoint));
    const auto& update = measure.update;
    CheckClose(value("norm"), measure.moments.Norm(), about + " norm");
    CheckClose(value("nan"), measure.moments.nan, about + " nan");
    CheckClose(value("dist_init"), measure.distance, about + " dist_init");
    CheckClose(value("upd_ratio"), update ? update->Ratio() : std::nullopt, about + " upd_ratio");
    CheckClose(value("changed"), update ? std::optional(update->ChangedShare()) : std::nullopt,
               about + " changed");
    CheckClose(value("cos_prev"), measure.turn ? measure.turn->Cosine() : std::nullopt,
               about + " cos_prev");
    if (!update) continue;
    const auto gap =
        static_cast<double>(*run.step(measure.checkpoint) - *run.step(*measure.before));
    CheckClose(value("upd_per_step"), update->Norm() / gap, about + " upd_per_step");
  }
}

}  // namespace

TEST_CASE("report: numbers of the page are those of Measure()") {
  TempDir dir;
  const std::string run_path = dir / "run", page_path = dir / "r.html";
  planted::WriteRun(run_path);
  const Json told = Json::parse(RunOk({"report", run_path, "-o", page_path, "--json"}).out);
  const std::string page = Content(page_path);
  CHECK(told["schema"] == "dsckpt.report/1");
  CHECK(told["bytes"] == page.size());
  CHECK(told["columns"] == planted::Steps().size());
  const PageData data = DataOf(page);
  CHECK(told["findings"] == data.json["findings"].size());
  REQUIRE(data.columns() == planted::Steps().size());
  CHECK(data.rows() == 12);
  const auto run = dsckpt::Trajectory::Open(run_path);
  REQUIRE(run.ok());
  size_t rows = 0;
  const auto measured =
      dsckpt::Measure(*run, dsckpt::SelectAll(*run),
                      [&](uint32_t, std::span<const dsckpt::TensorMeasure> measures) {
                        CheckRow(data, *run, measures);
                        ++rows;
                        return dsckpt::Status();
                      });
  REQUIRE(measured.ok());
  CHECK(rows == 12);
}

TEST_CASE("report: findings have a cell, the first NaN and a command") {
  TempDir dir;
  const std::string run = dir / "run", page_path = dir / "r.html";
  planted::WriteRun(run);
  RunOk({"report", run, "-o", page_path, "--title", "A title"});
  const PageData data = DataOf(Content(page_path));
  CHECK(data.json["title"] == "A title");
  CHECK(data.json["scope"]["quick"] == false);
  std::vector<std::string> kinds;
  for (const Json& finding : data.json["findings"]) kinds.push_back(finding["kind"]);
  CHECK(std::count(kinds.begin(), kinds.end(), "jump") >= 1);
  const auto of_kind = [&](const std::string& kind) {
    for (const Json& finding : data.json["findings"]) {
      if (finding["kind"] == kind) return finding;
    }
    FAIL("no " << kind);
    return Json();
  };
  const Json nan = of_kind("nan");
  CHECK(nan["step"] == planted::kNanStep);
  CHECK(nan["other"] == planted::kNanStep - 1000);
  CHECK(nan["first_nan"] == 5);
  CHECK(nan["value"] == 1);
  CHECK(nan["row"] == data.RowOf(planted::kWithNan));
  CHECK(data.json["steps"][nan["column"].get<size_t>()] == planted::kNanStep);
  CHECK(nan["command"] == "dsckpt stats " + run + "@16000 --filter " + planted::kWithNan);
  CHECK(of_kind("duplicate")["step"] == planted::kDuplicateStep);
  CHECK(of_kind("missing_step")["step"] == planted::kMissingStep);
  const Json frozen = of_kind("frozen");
  CHECK(frozen["name"] == planted::kFrozen);
  const Json jump = of_kind("jump");
  CHECK(jump["step"] == planted::kSpikeStep);
  const size_t column = jump["column"];
  CHECK((data.Flags(data.RowOf(planted::kSpiking), column) & dsckpt::tools::kFlagJump) != 0);
  // The duplicate shows where its content was first seen, and the frozen tensor is one stripe.
  const size_t duplicate = of_kind("duplicate")["column"];
  const auto first = data.First(data.RowOf("embed_out.weight"), duplicate);
  REQUIRE(first);
  CHECK(data.json["steps"][*first] == planted::kDuplicateOf);
  CHECK(data.First(data.RowOf(planted::kFrozen), duplicate) == 0);
  CHECK(data.json["attributes"][0]["name"] == "loss");
  CHECK(data.json["attributes"][0]["values"][1] == 5.0);
}

TEST_CASE("report: --quick takes what indexes say") {
  TempDir dir;
  const std::string run = dir / "run", page_path = dir / "r.html";
  planted::WriteRun(run);
  const Json told =
      Json::parse(RunOk({"report", "--quick", run, "-o", page_path, "--json", "--last", "5"}).out);
  CHECK(told["checkpoints"] == 5);
  uint64_t bytes = 0;
  for (const int64_t step : planted::Steps()) {
    bytes += std::filesystem::file_size(planted::PathOf(run, step));
  }
  CHECK(told["read_bytes"] < bytes / 2);
  const PageData data = DataOf(Content(page_path));
  CHECK(data.json["scope"]["quick"] == true);
  const size_t row = data.RowOf(planted::kWithNan);
  CHECK(data.Value("nan", row, 1) == 0);
  CHECK(data.Value("nan", row, 4) == 1);
  CHECK(data.Value("norm", row, 4));
  CHECK_FALSE(data.Value("upd_ratio", row, 4));
}

TEST_CASE("report: columns are joined by the greatest value, not by a mean") {
  constexpr uint32_t kSteps = 1000;
  auto report = MadeUpReport(kSteps, 4);
  REQUIRE(report.cells.columns() == dsckpt::tools::kReportColumns);
  auto page = dsckpt::tools::ReportPage(report, 5'000'000);
  REQUIRE(page.ok());
  const PageData data = DataOf(*page);
  REQUIRE(data.columns() == 400);
  const size_t jump = data.json["findings"][0]["column"];
  const size_t row = data.RowOf("gpt_neox.layers.1.mlp.dense_h_to_4h.weight");
  const double spike = *data.Value("upd_ratio", row, jump);
  CHECK(spike > 10 * *data.Value("upd_ratio", row, jump - 1));
  CHECK(spike > 10 * *data.Value("upd_ratio", row, jump + 1));
  // A column with a NaN in one of its steps has it.
  const size_t with_nan = data.RowOf("gpt_neox.layers.3.attention.query_key_value.weight");
  CHECK(data.Value("nan", with_nan, 299) == 0);
  CHECK(data.Value("nan", with_nan, 300).value_or(0) == Approx(3));
  CHECK((data.Flags(data.RowOf("gpt_neox.layers.0.post_attention_layernorm.weight"), 200) &
         dsckpt::tools::kFlagSame) != 0);

  auto smaller = dsckpt::tools::ReportPage(report, 200'000);
  REQUIRE(smaller.ok());
  CHECK(smaller->size() <= 200'000);
  const PageData coarse = DataOf(*smaller);
  CHECK(coarse.columns() < 400);
  const size_t joined = coarse.json["findings"][0]["column"];
  CheckClose(coarse.Value("upd_ratio", row, joined), spike, "the same spike");
  CHECK_FALSE(dsckpt::tools::ReportPage(report, 50'000).ok());
}

TEST_CASE("report: 1,000 steps of 100 layers with 8 modules fit into 5 MB") {
  auto report = MadeUpReport(1000, 100);
  const auto page = dsckpt::tools::ReportPage(report, 5'000'000);
  REQUIRE(page.ok());
  WARN("page of " << page->size() << " bytes, " << report.cells.columns() << " columns");
  CHECK(page->size() <= 5'000'000);
  CHECK(report.cells.columns() == 400);
}

TEST_CASE("report: names of strangers stay text") {
  const std::string hostile = "</script><img src=x onerror=\"alert(1)\"><!--\xE2\x80\xA8&amp;";
  auto report = MadeUpReport(8, 1);
  report.title = report.rows[0].name = report.attributes[0].name = hostile;
  report.findings[0].command = "dsckpt diff '" + hostile + "\xFF'";
  const auto page = dsckpt::tools::ReportPage(report, 5'000'000);
  REQUIRE(page.ok());
  CHECK_FALSE(Contains(*page, "<img"));
  CHECK_FALSE(Contains(*page, "<!--"));
  const PageData data = DataOf(*page);
  CHECK(data.json["title"] == hostile);
  CHECK(data.json["rows"]["name"][0] == hostile);
  CHECK(Contains(*page, "default-src 'none'; script-src 'sha256-"));
  CHECK_FALSE(Contains(*page, "innerHTML"));
}

TEST_CASE("report: moments of Adam stand with their tensors") {
  std::vector<dsckpt::tools::ReportRow> rows(7);
  const char* const names[] = {"model/layers.0.w",
                               "model/layers.1.w",
                               "optimizer/exp_avg/layers.0.w",
                               "optimizer/exp_avg_sq/layers.0.w",
                               "optimizer/state/model/layers.1.w/exp_avg",
                               "optimizer/exp_avg/other.w",
                               "optimizer/exp_avg_sq/layers.1.w"};
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].name = names[i];
    rows[i].shape = i == 6 ? "[3]" : "[2]";
  }
  dsckpt::tools::PairMoments(rows);
  CHECK(rows[0].exp_avg == 2u);
  CHECK(rows[0].exp_avg_sq == 3u);
  CHECK(rows[1].exp_avg == 4u);
  // Of another shape, it is the moment of something else.
  CHECK_FALSE(rows[1].exp_avg_sq);
  CHECK_FALSE(rows[2].exp_avg);
}

TEST_CASE("report: what it refuses, and exit codes") {
  TempDir dir;
  const std::string run = dir / "run", page = dir / "r.html";
  planted::WriteRun(run);
  CHECK(RunTool({"report", run}).code == 2);
  CHECK(RunTool({"report", run, "-o", page, "-f", "nothing*"}).code == 1);
  CHECK_FALSE(std::filesystem::exists(page));
  RunOk({"report", "--quick", run, "-o", page});
  CHECK(Contains(RunTool({"report", "--quick", run, "-o", page}).err, "--force"));
  RunOk({"report", "--quick", run, "-o", page, "--force"});
  const Outcome small =
      RunTool({"report", "--quick", run, "-o", page, "--force", "--max-bytes", "10kB"});
  CHECK(small.code == 2);
  CHECK(Contains(small.err, "--max-bytes"));
  CHECK(Contains(small.err, "--filter"));
}

// Not a test: what report_page.py opens in a browser.
TEST_CASE("report: pages to look at", "[.pages]") {
  const char* const folder = std::getenv("DSCKPT_REPORT_PAGES");
  REQUIRE(folder != nullptr);
  const std::string path = folder;
  const auto write = [&](const std::string& name, dsckpt::tools::Report report) {
    const auto page = dsckpt::tools::ReportPage(report, 5'000'000);
    REQUIRE(page.ok());
    WriteText(path + "/" + name, *page);
  };
  write("large.html", MadeUpReport(1000, 100));
  write("moments.html", MadeUpReport(60, 6, true));
  write("wide.html", MadeUpReport(60, 500));
  auto hostile = MadeUpReport(5, 2);
  hostile.title = "</script><img src=x onerror=\"document.title='taken'\">";
  for (auto& row : hostile.rows)
    row.name = "<b>" + row.name + "</b><script>document.title='taken'</script>";
  write("hostile.html", hostile);
  planted::WriteRun(path + "/run");
  RunOk({"report", path + "/run", "-o", path + "/planted.html", "--title", "A small run"});
  // Of these little is known: one checkpoint without a step, and no statistics.
  const std::string model = path + "/model.safetensors";
  RunOk({"export", path + "/run@latest", "-o", model});
  RunOk({"report", model, "-o", path + "/one.html"});
  RunOk({"report", "--quick", model, "-o", path + "/plain.html", "--step-from", "name:none(.)"});
  RunOk({"report", "--quick", path + "/run", "-o", path + "/quick.html"});
}
