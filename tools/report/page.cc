// The report as one HTML page: its data as JSON and as compressed bytes, its policy, its files.

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "dsckpt/version.h"
#include "tools/report/page_text.h"
#include "tools/report/report.h"
#include "tools/terminal/format.h"
#include "tools/terminal/text.h"

namespace dsckpt::tools {
namespace {

using Json = nlohmann::ordered_json;

/// Below this a page shows too little to be of use.
constexpr uint32_t kFewestColumns = 16;

template <typename Value>
Json MaybeJson(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

/// One member for each field, an array in the order of rows: names of members take less space so.
Json RowsJson(const Report& report) {
  Json names = Json::array(), modules = Json::array(), layers = Json::array();
  Json dtypes = Json::array(), shapes = Json::array(), elements = Json::array();
  Json straightness = Json::array(), first = Json::array(), second = Json::array();
  for (const ReportRow& row : report.rows) {
    names.push_back(row.name);
    modules.push_back(row.module);
    layers.push_back(MaybeJson(row.layer));
    dtypes.push_back(row.dtype);
    shapes.push_back(row.shape);
    elements.push_back(row.elements);
    straightness.push_back(MaybeJson(row.straightness));
    first.push_back(MaybeJson(row.exp_avg));
    second.push_back(MaybeJson(row.exp_avg_sq));
  }
  return {{"name", names},
          {"module", modules},
          {"layer", layers},
          {"dtype", dtypes},
          {"shape", shapes},
          {"n", elements},
          {"straightness", straightness},
          {"exp_avg", first},
          {"exp_avg_sq", second}};
}

Json FindingsJson(const Report& report) {
  Json findings = Json::array();
  for (const ReportFinding& finding : report.findings) {
    findings.push_back({{"kind", finding.kind},
                        {"step", MaybeJson(finding.step)},
                        {"other", MaybeJson(finding.other_step)},
                        {"column", report.cells.column_of(finding.column_step)},
                        {"row", MaybeJson(finding.row)},
                        {"name", finding.name},
                        {"tensors", finding.tensors},
                        {"value", MaybeJson(finding.value)},
                        {"threshold", MaybeJson(finding.threshold)},
                        {"first_nan", MaybeJson(finding.first_nan)},
                        {"command", finding.command}});
  }
  return findings;
}

Json MetricsJson() {
  Json metrics = Json::array();
  for (size_t m = 0; m < kReportMetrics; ++m) {
    const auto metric = static_cast<ReportMetric>(m);
    metrics.push_back(
        {{"name", ReportMetricName(metric)}, {"log", ReportCells::IsLogarithmic(metric)}});
  }
  return metrics;
}

Json StepsJson(const Report& report) {
  Json steps = Json::array();
  for (const auto& step : report.steps) steps.push_back(MaybeJson(step));
  return steps;
}

Json AttributesJson(const Report& report) {
  Json attributes = Json::array();
  for (const ReportAttribute& attribute : report.attributes) {
    Json values = Json::array();
    for (const auto& value : attribute.values) values.push_back(MaybeJson(value));
    attributes.push_back({{"name", attribute.name}, {"values", values}});
  }
  return attributes;
}

Json SizesJson(const Report& report) {
  Json sizes = Json::array();
  for (const ReportSize& size : report.sizes) {
    sizes.push_back({{"module", size.module},
                     {"dtype", size.dtype},
                     {"tensors", size.tensors},
                     {"elements", size.elements},
                     {"bytes", size.bytes}});
  }
  return sizes;
}

Json ScopeJson(const ReportScope& scope) {
  return {{"quick", scope.quick},
          {"cells", scope.cells},
          {"bytes", scope.bytes},
          {"measured", scope.measured},
          {"with_content", scope.with_content},
          {"read_bytes", scope.read_bytes},
          {"skipped", scope.skipped}};
}

/// What the script takes, as JSON that ends no element: names come from whoever made the files.
std::string DataText(const Report& report) {
  Json left_out = Json::array();
  for (const auto& [path, why] : report.left_out)
    left_out.push_back({{"path", path}, {"why", why}});
  const Json data = {{"title", report.title},
                     {"runs", report.runs},
                     {"version", VersionString()},
                     {"steps", StepsJson(report)},
                     {"operands", report.operands},
                     {"starts", report.cells.starts()},
                     {"attributes", AttributesJson(report)},
                     {"metrics", MetricsJson()},
                     {"rows", RowsJson(report)},
                     {"findings", FindingsJson(report)},
                     {"more_findings", report.more_findings},
                     {"sizes", SizesJson(report)},
                     {"left_out", left_out},
                     {"scope", ScopeJson(report.scope)}};
  const std::string text = data.dump(-1, ' ', true, Json::error_handler_t::replace);
  std::string safe;
  for (const char c : text) {
    if (c == '<' || c == '>' || c == '&') {
      FormatTo(safe, "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      safe += c;
    }
  }
  return safe;
}

Result<std::string> Gzip(const std::string& bytes) {
  constexpr int kGzipWindow = 15 + 16, kMemory = 9;
  z_stream stream = {};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, kMemory,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    return Status(StatusCode::kOutOfMemory, "not enough memory to compress the page");
  }
  std::string out(deflateBound(&stream, static_cast<uLong>(bytes.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int done = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (done != Z_STREAM_END) {
    return Status(StatusCode::kInternal, "the page's data cannot be compressed");
  }
  return out;
}

/// "sha256-<base64>", from hexadecimal digits.
std::string PolicyHash(std::string_view hexadecimal) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hexadecimal.size(); i += 2) {
    unsigned byte = 0;
    std::from_chars(hexadecimal.data() + i, hexadecimal.data() + i + 2, byte, 16);
    bytes += static_cast<char>(byte);
  }
  return "'sha256-" + Base64(std::as_bytes(std::span(bytes))) + "'";
}

/// The page with its parts in their places; what stands in a part is not looked at.
std::string Assembled(const std::map<std::string_view, std::string>& parts) {
  std::string page;
  std::string_view rest = kPageHtml;
  for (size_t open = rest.find("{{"); open != rest.npos; open = rest.find("{{")) {
    const size_t close = rest.find("}}", open);
    page += rest.substr(0, open);
    page += parts.at(rest.substr(open + 2, close - open - 2));
    rest.remove_prefix(close + 2);
  }
  return page.append(rest);
}

Result<std::string> PageOf(const Report& report) {
  DSCKPT_ASSIGN_OR_RETURN(const std::string packed, Gzip(report.cells.Pack()));
  std::string script;
  for (const std::string_view part : kPageScripts) script += part;
  const std::string policy = "default-src 'none'; script-src " + PolicyHash(kPageScriptHash) +
                             "; style-src " + PolicyHash(kPageStyleHash) +
                             "; base-uri 'none'; form-action 'none'";
  return Assembled({{"POLICY", policy},
                    {"STYLE", std::string(kPageStyle)},
                    {"SCRIPT", script},
                    {"DATA", DataText(report)},
                    {"CELLS", Base64(std::as_bytes(std::span(packed)))}});
}

}  // namespace

Result<std::string> ReportPage(Report& report, uint64_t max_bytes) {
  for (;;) {
    DSCKPT_ASSIGN_OR_RETURN(std::string page, PageOf(report));
    if (page.size() <= max_bytes) return page;
    const uint32_t columns = report.cells.columns();
    const double share = 0.95 * static_cast<double>(max_bytes) / static_cast<double>(page.size());
    const auto fewer = static_cast<uint32_t>(share * columns);
    if (fewer < kFewestColumns) {
      return Status(StatusCode::kInvalidArgument,
                    Format("a page of {} columns takes {} of the {} that --max-bytes allows: "
                           "choose fewer tensors with --filter, or allow more",
                           columns, HumanBytes(page.size()), HumanBytes(max_bytes)));
    }
    report.cells.Join(fewer);
  }
}

}  // namespace dsckpt::tools
