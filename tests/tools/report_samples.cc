#include "tests/tools/report_samples.h"

#include <zlib.h>

#include <cmath>
#include <cstring>
#include <random>

#include "tests/support/catch.h"

namespace tools = dsckpt::tools;

namespace {

const char* const kModules[] = {
    "attention.query_key_value.weight", "attention.dense.weight",
    "mlp.dense_h_to_4h.weight",         "mlp.dense_4h_to_h.weight",
    "attention.query_key_value.bias",   "mlp.dense_h_to_4h.bias",
    "input_layernorm.weight",           "post_attention_layernorm.weight"};

constexpr uint64_t kElements = 4096;

/// What Measure() would give.
class MadeUpTensor {
 public:
  MadeUpTensor(uint32_t steps, uint32_t layer, size_t module, std::mt19937& random)
      : steps_(steps), layer_(layer), module_(module), random_(random) {}

  std::vector<tools::ReportCell> Cells(bool with_nan) {
    std::vector<tools::ReportCell> cells;
    for (uint32_t k = 0; k < steps_; ++k) {
      tools::ReportCell cell = tools::CellOf(Measured(k, with_nan), 100, dsckpt::DType::kF32);
      cell.step = k;
      cell.content = module_ == 7 ? 0 : k;
      if (module_ == 7 && k > 0) cell.flags |= tools::kFlagSame;
      cells.push_back(cell);
    }
    return cells;
  }

 private:
  dsckpt::TensorMeasure Measured(uint32_t k, bool with_nan) {
    std::normal_distribution<double> noise(0, 1);
    dsckpt::TensorMeasure measure;
    measure.checkpoint = k;
    measure.moments.count = kElements;
    const double done = static_cast<double>(k) / steps_;
    const double norm = 10 + 0.1 * layer_ + 5 * done + 0.01 * noise(random_);
    measure.moments.squared_deviations = norm * norm;
    if (with_nan && k >= steps_ / 4 * 3) measure.moments.nan = 3;
    if (k == 0) return measure;
    measure.before = k - 1;
    const double jump = k == steps_ / 2 && (module_ == 2 || module_ == 3) ? kPlantedJump : 1;
    const double update =
        0.05 * std::exp(0.1 * noise(random_)) * std::exp(-2 * done) * (1 + 0.01 * layer_) * jump;
    dsckpt::TensorUpdate& moved = measure.update.emplace();
    moved.count = moved.finite = kElements;
    moved.changed = module_ == 7 ? 0 : static_cast<uint64_t>(kElements * (1 - 0.3 * done));
    moved.squares = module_ == 7 ? 0 : update * update;
    moved.squares_before = moved.squares_after = norm * norm;
    measure.distance = module_ == 7 ? 0 : 0.05 * std::sqrt(static_cast<double>(k)) + update;
    if (k > 1 && module_ != 7) measure.turn = {0.2 + 0.1 * noise(random_), 1, 1};
    return measure;
  }

  uint32_t steps_, layer_;
  size_t module_;
  std::mt19937& random_;
};

tools::ReportRow RowFor(const std::string& prefix, uint32_t layer, size_t module) {
  tools::ReportRow row;
  row.name = prefix + "gpt_neox.layers." + std::to_string(layer) + "." + kModules[module];
  row.module = prefix + "gpt_neox.layers.#." + std::string(kModules[module]);
  row.layer = layer;
  row.dtype = "F32";
  row.shape = "[64, 64]";
  row.elements = kElements;
  row.straightness = 0.1 + 0.005 * layer;
  return row;
}

void AddFindings(tools::Report& report, uint32_t steps, uint32_t layers) {
  tools::ReportFinding jump;
  jump.kind = "jump";
  jump.step = report.steps[steps / 2];
  jump.other_step = report.steps[steps / 2 - 1];
  jump.column_step = steps / 2;
  jump.row = 2 * layers;
  jump.name = report.rows[2 * layers].module;
  jump.tensors = layers;
  jump.value = 0.5;
  jump.threshold = 0.06;
  jump.command = "dsckpt diff runs/made-up@50000 runs/made-up@49900 --filter '*.mlp.*'";
  tools::ReportFinding nan = jump;
  nan.kind = "nan";
  nan.tensors = 1;
  nan.column_step = steps / 4 * 3;
  nan.step = report.steps[nan.column_step];
  nan.other_step = report.steps[nan.column_step - 1];
  nan.row = layers - 1;
  nan.name = report.rows[layers - 1].name;
  nan.value = 3;
  nan.first_nan = 517;
  nan.command = "dsckpt inspect --json runs/made-up@75000 --filter " + nan.name;
  report.findings = {jump, nan};
}

}  // namespace

tools::Report MadeUpReport(uint32_t steps, uint32_t layers, bool moments) {
  tools::Report report(steps, tools::kReportColumns);
  std::mt19937 random(1);
  report.title = "runs/made-up";
  report.runs = {report.title};
  tools::ReportAttribute loss{"loss", {}}, rate{"lr", {}};
  for (uint32_t k = 0; k < steps; ++k) {
    report.steps.emplace_back(100 * k);
    report.operands.push_back("runs/made-up@" + std::to_string(100 * k));
    loss.values.emplace_back(2 + 8 * std::exp(-6.0 * k / steps) + (k == steps / 2 ? 1.5 : 0));
    rate.values.emplace_back(3e-4 * std::min(1.0, (k + 1) * 20.0 / steps) * (1 - 0.9 * k / steps));
  }
  report.attributes = {loss, rate};
  for (const char* prefix : {"", "optimizer/exp_avg/", "optimizer/exp_avg_sq/"}) {
    if (*prefix != '\0' && !moments) break;
    for (size_t module = 0; module < std::size(kModules); ++module) {
      for (uint32_t layer = 0; layer < layers; ++layer) {
        report.rows.push_back(RowFor(prefix, layer, module));
        const bool with_nan = *prefix == '\0' && module == 0 && layer == layers - 1;
        report.cells.AddRow(MadeUpTensor(steps, layer, module, random).Cells(with_nan));
      }
    }
  }
  tools::PairMoments(report.rows);
  report.sizes = {{"gpt_neox.layers.#.mlp", "F32", 3UL * layers, 3UL * layers * kElements,
                   12UL * layers * kElements},
                  {"gpt_neox.layers.#.attention", "F32", 5UL * layers, 5UL * layers * kElements,
                   20UL * layers * kElements}};
  AddFindings(report, steps, layers);
  report.scope.cells = report.scope.measured = report.scope.with_content =
      report.rows.size() * steps;
  report.scope.bytes = report.scope.read_bytes = report.scope.cells * kElements * 4;
  return report;
}

namespace {

std::string Element(const std::string& page, const std::string& opening) {
  const size_t at = page.find(opening);
  REQUIRE(at != std::string::npos);
  const size_t from = at + opening.size();
  return page.substr(from, page.find("</script>", from) - from);
}

std::string FromBase64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(digits.find(c));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFF);
  }
  return bytes;
}

std::string Unzipped(const std::string& bytes) {
  z_stream stream = {};
  REQUIRE(inflateInit2(&stream, 15 + 16) == Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string out;
  int state = Z_OK;
  while (state == Z_OK) {
    char chunk[1 << 16];
    stream.next_out = reinterpret_cast<Bytef*>(chunk);
    stream.avail_out = sizeof chunk;
    state = inflate(&stream, Z_NO_FLUSH);
    out.append(chunk, sizeof chunk - stream.avail_out);
  }
  inflateEnd(&stream);
  REQUIRE(state == Z_STREAM_END);
  return out;
}

}  // namespace

PageData DataOf(const std::string& page) {
  PageData data;
  data.json =
      nlohmann::ordered_json::parse(Element(page, R"(<script type="application/json" id="data">)"));
  data.cells = Unzipped(FromBase64(Element(page, R"(<script type="text/plain" id="cells">)")));
  REQUIRE(data.cells.size() == data.AfterMetrics() + 3 * data.rows() * data.columns());
  return data;
}

size_t PageData::RowOf(const std::string& name) const {
  for (size_t row = 0; row < rows(); ++row) {
    if (json["rows"]["name"][row] == name) return row;
  }
  FAIL("no row " << name);
  return 0;
}

uint32_t PageData::Code(size_t planes, size_t at) const {
  const auto high = static_cast<uint8_t>(cells[planes + at]);
  const auto low = static_cast<uint8_t>(cells[planes + rows() * columns() + at]);
  return static_cast<uint32_t>(high << 8 | low);
}

std::optional<double> PageData::Value(const std::string& metric, size_t row, size_t column) const {
  size_t from = 0, m = 0;
  while (json["metrics"][m]["name"] != metric) {
    REQUIRE(++m < json["metrics"].size());
    from += rows() * (8 + 2 * columns());
  }
  float low = 0, high = 0;
  std::memcpy(&low, cells.data() + from + 4 * row, 4);
  std::memcpy(&high, cells.data() + from + 4 * (rows() + row), 4);
  const uint32_t code = Code(from + 8 * rows(), row * columns() + column);
  if (code == 0) return std::nullopt;
  if (code == 1) return 0;
  const double scaled = low + (static_cast<double>(high) - low) / 65533 * (code - 2);
  return json["metrics"][m]["log"] ? std::exp(scaled) : scaled;
}

uint8_t PageData::Flags(size_t row, size_t column) const {
  return static_cast<uint8_t>(cells[AfterMetrics() + row * columns() + column]);
}

std::optional<size_t> PageData::First(size_t row, size_t column) const {
  const uint32_t code = Code(AfterMetrics() + rows() * columns(), row * columns() + column);
  if (code == 0) return std::nullopt;
  return column - (code - 1);
}
