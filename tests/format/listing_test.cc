#include "format/header/listing.h"

#include <cstring>
#include <utility>

#include "dsckpt/limits.h"
#include "format/columns/columns.h"
#include "format/header/from_index.h"
#include "format/header/header.h"
#include "tests/support/catch.h"

using namespace dsckpt;
using namespace dsckpt::format;

namespace {

/// An index as far as its header depends on it, and the header.
struct Shard {
  IndexColumns columns;
  std::string region;
  uint64_t tail_begin = 0, file_bytes = 0;
  bool lists = false;

  void AddTensor(std::string_view name, DType dtype, const std::vector<int64_t>& shape) {
    const DTypeInfo info = *FindDType(dtype);
    columns.dtypes.push_back(
        {static_cast<uint16_t>(info.code), info.bits, info.block_elements, info.block_bytes});
    columns.tensor_names.Append(name);
    columns.tensor_dtype.push_back(static_cast<uint8_t>(columns.dtypes.size() - 1));
    columns.dims.insert(columns.dims.end(), shape.begin(), shape.end());
    columns.dim_end.push_back(static_cast<uint32_t>(columns.dims.size()));
    columns.tensors.raw_bytes.push_back(TensorBytes(info, shape).value());
    columns.tensors.encoding.push_back(0);
  }
  void AddAlias(std::string_view name, uint32_t target) {
    columns.alias_names.Append(name);
    columns.alias_target.push_back(target);
  }

  /// Places the tensors one after the other and makes the header.
  void Finish(const Metadata& producer = {}) {
    columns.tensors.offset.assign(columns.tensors.raw_bytes.size(), 0);
    region = Header(producer);
    tail_begin = region.size();
    for (size_t i = 0; i < columns.tensors.offset.size(); ++i) {
      columns.tensors.offset[i] = tail_begin;
      tail_begin += columns.tensors.raw_bytes[i];
    }
    file_bytes = tail_begin + 1000;
    region = Header(producer);
    PatchSizes(region, lists ? tail_begin : region.size(), file_bytes);
  }

  Status Check() const { return Check(region); }
  Status Check(std::string_view other) const {
    return CheckListing(other, ViewOf(columns), tail_begin, file_bytes);
  }
  /// The check with `to` in the place of `from`, at equal length.
  Status Check(std::string_view from, std::string_view to) const {
    std::string changed = region;
    const size_t at = changed.find(from);
    REQUIRE(at != std::string::npos);
    changed.replace(at, from.size(), to);
    changed.resize(region.size(), ' ');
    return Check(changed);
  }

 private:
  std::string Header(const Metadata& producer) {
    const IndexView view = ViewOf(columns);
    return HeaderOfIndex(view, ListedTensors(view), true, producer, &lists).value();
  }
};

/// Tensors in file order; `empty` begins where `w` does.
Shard Sample() {
  Shard shard;
  shard.AddTensor("a\"\n/b", kF32, {2, 3});
  shard.AddTensor("empty", kI64, {0, 4});
  shard.AddTensor("w", kI32, {6});
  shard.AddAlias("tied", 2);
  shard.Finish({{"format", "np"}, {"note", "a \"quote\"\tand \xc3\xa9"}});
  return shard;
}

Header Parsed(const Shard& shard, std::string_view region) {
  return ParseHeader(region.substr(8), shard.file_bytes - region.size()).value();
}

bool SameEntries(const Header& a, const Header& b) {
  return std::equal(a.entries.begin(), a.entries.end(), b.entries.begin(), b.entries.end(),
                    [](const HeaderEntry& x, const HeaderEntry& y) {
                      return x.name == y.name && x.dtype.code == y.dtype.code &&
                             x.shape == y.shape && x.begin == y.begin && x.end == y.end;
                    });
}

}  // namespace

TEST_CASE("a header lists what its index lists, in canonical form or another") {
  const Shard shard = Sample();
  CHECK(shard.Check().ToString() == "Ok");
  CHECK(shard.Check("\"w\":{", "\"w\" : {").ok());
  CHECK(shard.Check("\"w\":{", "\"\\u0077\":{").ok());
  CHECK(shard.Check("\"dtype\":\"I32\",\"shape\":[6]", "\"shape\":[6],\"dtype\":\"I32\"").ok());
  CHECK(shard.Check("\"tied\":\"w\"", "\"tied\":\"?\"").ok());
  CHECK(shard.Check("\"format\":\"np\"", "\"fo\\u0072mat\":\"\\u0000\"").ok());
  CHECK(shard.Check(",\"note\"", ",\"dsckpt.more\":\"\",\"note\"").ok());

  Shard nothing;
  nothing.Finish();
  CHECK(nothing.Check().ToString() == "Ok");
}

TEST_CASE("a header that lists something else is refused, and the first difference named") {
  const Shard shard = Sample();
  const char* const changes[][3] = {
      {"\"I32\"", "\"F32\"", "'w': the index says I32 [6] at [24, 48) of the data, the header F32"},
      {"[2,3]", "[3,2]", "the header F32 [3, 2] at [0, 24)"},
      {"\"w\":{", "\"v\":{",
       "'w': the index says that it is number 2 of the listed ones, the "
       "header has 'v' there"},
      {"\"empty\":", "\"w\":", "duplicate name 'w'"},
      {"\"w\":{\"dtype\"",
       "\"x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[48,48]},"
       "\"w\":{\"dtype\"",
       "'x': the index says nothing"},
      {"\"__dsckpt__\"", "\"__dsckpT__\"", "ends with '__dsckpT__'"},
      {"\"np\"", "[]", "__metadata__ member 'format' must be a string"},
      {"]}}", "]}},", "not valid JSON"},
      {"]}}", "]} ", "not valid JSON"},
  };
  for (const auto& [from, to, why] : changes) {
    const Status status = shard.Check(from, to);
    INFO(to << " " << status.ToString());
    CHECK(status.code() == StatusCode::kMismatch);
    CHECK(status.message().find(why) != std::string::npos);
    CHECK(status.offset() == 8);
  }
}

TEST_CASE("whatever byte is changed, a header that passes lists the same tensors") {
  const Shard shard = Sample();
  const Header expected = Parsed(shard, shard.region);
  const size_t json_end = shard.region.find_last_not_of(' ') + 2;
  std::string changed = shard.region;
  size_t passed = 0;
  for (size_t at = 8; at < json_end; ++at) {
    for (int value = 0; value < 256; ++value) {
      changed[at] = static_cast<char>(value);
      const Status status = shard.Check(changed);
      const auto parsed =
          ParseHeader(std::string_view(changed).substr(8), shard.file_bytes - changed.size());
      const bool same = parsed.ok() && SameEntries(*parsed, expected);
      passed += status.ok();
      if (status.ok() == same) continue;
      INFO("byte " << at << ": " << value << ": " << status.ToString());
      CHECK(status.ok() == same);
    }
    changed[at] = shard.region[at];
  }
  // Letters of the metadata.
  CHECK(passed > 5000);
}

TEST_CASE("a header names no tensors only where there is no room for them") {
  Shard large;
  const std::string name(65530, 'n');
  for (int i = 0; i < 1600; ++i) large.AddTensor(std::to_string(10000 + i) + name, kU8, {1});
  large.Finish();
  CHECK_FALSE(large.lists);
  CHECK(large.Check().ToString() == "Ok");
  CHECK(large.Check("\"data_offsets\":[0 ", "\"data_offsets\":[1 ").code() ==
        StatusCode::kMismatch);

  Shard small = Sample();
  HeaderBuilder builder(true, {});
  bool lists = false;
  small.region = builder.Finish(&lists).value();
  PatchSizes(small.region, small.region.size(), small.file_bytes);
  const Status status = small.Check();
  CHECK(status.code() == StatusCode::kMismatch);
  CHECK(status.message().find("3, for which there is room") != std::string::npos);
}
