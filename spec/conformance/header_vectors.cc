#include "spec/conformance/patch.h"
#include "spec/conformance/vectors.h"

// Shards that open, as their JSON header lists the tensors that the index has, and whose header is
// not the one that section 4 of spec/format.md gives them: verification says so.

namespace dsckpt::conformance {
namespace {

void Replace(std::string& text, std::string_view from, std::string_view to) {
  text.replace(text.find(from), from.size(), to);
}

/// The region stays as long as it was.
BytesChange Replacing(std::string_view from, std::string_view to) {
  return [=](std::string& header) {
    const size_t size = header.size();
    Replace(header, from, to);
    header.resize(size, ' ');
  };
}

}  // namespace

std::vector<InvalidVector> InvalidHeaders(const std::string& mixed, const std::string& aliases) {
  std::vector<InvalidVector> vectors;
  const auto add = [&](std::string name, std::string item, std::string kind, std::string bytes) {
    vectors.push_back({"v-header-" + std::move(name), std::move(bytes), StatusCode::kOk, "",
                       std::move(item), std::move(kind)});
  };
  const auto mismatch = [&](std::string name, std::string item, std::string_view from,
                            std::string_view to) {
    add(std::move(name), std::move(item), "header-mismatch",
        WithHeader(mixed, Replacing(from, to)));
  };
  mismatch("alias-target", "m/t2", "\"m/t2\":\"m/t1\"", "\"m/t2\":\"m/w\"");
  mismatch("alias-missing", "header", ",\"m/t2\":\"m/t1\"", "");
  mismatch("format-missing", "header", ",\"format\":\"pt\"", "");
  mismatch("format-place", "header", "\"format\":\"pt\",\"m/t2\":\"m/t1\"",
           "\"m/t2\":\"m/t1\",\"format\":\"pt\"");
  mismatch("reserved-member", "header", "\"format\":\"pt\"", "\"format\":\"pt\",\"dsckpt.x\":\"\"");
  mismatch("members-order", "header", "\"format\":\"pt\",", "\"format\":\"pt\",\"z\":\"\",");
  mismatch("fields-order", "header", "\"dtype\":\"F32\",\"shape\":[2,3],",
           "\"shape\":[2,3],\"dtype\":\"F32\",");
  mismatch("space", "header", "\"m/w\":{", "\"m/w\": {");
  mismatch("escape", "header", "\"m/w\":{", "\"m\\/w\":{");
  add("entries-order", "header", "header-mismatch", WithHeader(mixed, [](std::string& header) {
        const size_t first = header.find("\"m/t1\":{"), second = header.find("\"m/w\":{");
        const std::string entry = header.substr(first, second - first);
        header.erase(first, entry.size()).insert(header.find("\"m/f4\""), entry);
      }));
  add("tail-first", "header", "header-mismatch", WithHeader(mixed, [](std::string& header) {
        const size_t tail = header.find("\"__dsckpt__\""), end = header.rfind('}');
        const std::string entry = header.substr(tail, end - tail);
        header.erase(tail - 1, entry.size() + 1).insert(header.find("\"m/t1\":{"), entry + ",");
      }));
  mismatch("space-before-end", "header", "]}}", "]} }");
  add("longer", "header", "header-mismatch", WithLongerHeader(mixed));
  // An alias that a member of the producer's would hide.
  add("alias-hidden", "note", "header-mismatch",
      WithHeader(aliases, Replacing("\"note\":\"dsckpt.bytes\"", "\"note\":\"something\"")));
  return vectors;
}

}  // namespace dsckpt::conformance
