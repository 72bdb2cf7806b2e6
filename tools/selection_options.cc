#include "tools/selection_options.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string>

namespace dsckpt::tools {

namespace {

const std::map<std::string, DType> kCastNames = {
    {"f16", DType::kF16},     {"bf16", DType::kBF16},   {"f32", DType::kF32},
    {"f64", DType::kF64},     {"float16", DType::kF16}, {"bfloat16", DType::kBF16},
    {"float32", DType::kF32}, {"float64", DType::kF64},
};

}  // namespace

void AddNameFilter(CommandLine& line, NameFilter& names, const char* filter_help,
                   const char* exclude_help) {
  line.Add("-f,--filter", names.filters, filter_help).Repeatable().Placeholder("GLOB");
  line.Add("-x,--exclude", names.excludes, exclude_help).Repeatable().Placeholder("GLOB");
}

void AddSelectionOptions(CommandLine& line, TensorSelection& selection) {
  AddNameFilter(line, selection.names, "Only tensors whose names match; repeatable",
                "Not those whose names match; repeatable");
  line.Add("--strip-prefix", selection.strip_prefix, "Names lose this beginning").Placeholder("P");
  line.Add("--rename", selection.renames, "Replace in names, as sed does; repeatable")
      .Repeatable()
      .Placeholder("s/RE/NEW/");
  AddDTypeOption(line, selection.dtype,
                 "Cast floating-point tensors: BF16, F16, F32 or F64, nearest even");
}

void AddDTypeOption(CommandLine& line, std::optional<DType>& dtype, const char* help) {
  const auto parse_dtype = [&dtype](std::string name) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return tolower(c); });
    const auto found = kCastNames.find(name);
    if (found == kCastNames.end()) return name + " is none of BF16, F16, F32, F64";
    dtype = found->second;
    return std::string();
  };
  line.AddParsed("--dtype", parse_dtype, help).Placeholder("NAME");
}

}  // namespace dsckpt::tools
