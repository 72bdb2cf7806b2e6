#include "dsckpt/dtype.h"

#include <limits>
#include <string>
#include <vector>

#include "tests/support/catch.h"

using namespace dsckpt;

TEST_CASE("C01 the dtype table") {
  struct Row {
    uint16_t code;
    const char* name;
    int bits;
    bool listable;
    bool floating;
  };
  // The numbers are stored in files: a row is never changed, only added.
  const std::vector<Row> rows = {
      {1, "BOOL", 8, true, false},        {2, "U8", 8, true, false},
      {3, "I8", 8, true, false},          {4, "U16", 16, true, false},
      {5, "I16", 16, true, false},        {6, "U32", 32, true, false},
      {7, "I32", 32, true, false},        {8, "U64", 64, true, false},
      {9, "I64", 64, true, false},        {10, "F16", 16, true, true},
      {11, "BF16", 16, true, true},       {12, "F32", 32, true, true},
      {13, "F64", 64, true, true},        {14, "C64", 64, true, true},
      {15, "C128", 128, false, true},     {16, "F8_E4M3", 8, true, true},
      {17, "F8_E5M2", 8, true, true},     {18, "F8_E8M0", 8, true, true},
      {19, "F8_E4M3FNUZ", 8, true, true}, {20, "F8_E5M2FNUZ", 8, true, true},
      {21, "F6_E2M3", 6, true, false},    {22, "F6_E3M2", 6, true, false},
      {23, "F4", 4, true, false},         {24, "I4", 4, false, false},
      {25, "U4", 4, false, false},
  };
  REQUIRE(AllDTypes().size() == rows.size());
  for (const Row& row : rows) {
    INFO(row.name);
    const auto info = FindDType(static_cast<DType>(row.code));
    REQUIRE(info);
    CHECK(static_cast<uint16_t>(info->code) == row.code);
    CHECK(info->name == row.name);
    CHECK(info->bits == row.bits);
    CHECK(info->listable == row.listable);
    CHECK(info->floating == row.floating);
    // A block is the smallest whole number of bytes.
    CHECK(info->block_elements * info->bits == info->block_bytes * 8);
    CHECK((info->bits % 8 == 0) == (info->block_elements == 1));
    const auto named = FindDType(row.name);
    REQUIRE(named);
    CHECK(named->code == info->code);
    CHECK(AllDTypes()[row.code - 1].name == row.name);
  }
}

TEST_CASE("C01 unknown dtypes are nothing, not something near") {
  for (const int code : {0, 26, 1000, 65535}) CHECK_FALSE(FindDType(static_cast<DType>(code)));
  for (const char* name : {"", "f32", "F32 ", "F3", "complex64", "unknown"}) {
    INFO(name);
    CHECK_FALSE(FindDType(std::string_view(name)));
  }
}

TEST_CASE("C01 C02 C48 bytes of a shape") {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t k2To62 = int64_t{1} << 62;
  struct Case {
    const char* dtype;
    std::vector<int64_t> shape;
    int64_t bytes;        // -1: refused
    const char* message;  // of the refusal
  };
  const Case cases[] = {
      {"F8_E4M3", {3}, 3, ""},
      {"F8_E5M2", {3}, 3, ""},
      {"F8_E8M0", {3}, 3, ""},
      {"F4", {2, 8}, 8, ""},
      {"F4", {2, 3}, 3, ""},
      {"F4", {2, 7}, 7, ""},
      {"F4", {1, 7}, -1, "shape [1, 7]: 7 elements of F4 do not fill whole bytes"},
      {"F4", {}, -1, "shape []: 1 elements of F4"},
      {"I4", {5}, -1, "I4"},
      {"U4", {6}, 3, ""},
      {"F6_E2M3", {4}, 3, ""},
      {"F6_E3M2", {2}, -1, "multiple of 4"},
      {"C64", {4}, 32, ""},
      {"C128", {2}, 32, ""},
      {"BOOL", {}, 1, ""},
      {"F32", {0}, 0, ""},
      {"F32", {2, 0}, 0, ""},
      {"F32", {0, 8}, 0, ""},
      {"F32", {1}, 4, ""},
      {"F4", {0}, 0, ""},
      {"U8", {kMax}, kMax, ""},
      {"U8", {k2To62, 1, 1}, k2To62, ""},
      {"U8", {k2To62, 4}, -1, "more than 2^63-1 elements"},
      {"U8", {kMax, 2}, -1, "more than 2^63-1 elements"},
      {"U8", {k2To62, 2}, -1, "more than 2^63-1 elements"},
      {"U8", {k2To62, 4, 0}, -1, "more than 2^63-1 elements"},
      {"U8", {0, k2To62, 4}, -1, "more than 2^63-1 elements"},
      {"U8", {0, kMax}, 0, ""},
      {"U16", {k2To62}, -1, "more than 2^63-1 bytes of U16"},
      {"C128", {int64_t{1} << 59}, -1, "more than 2^63-1 bytes of C128"},
      {"F4", {k2To62, 1}, k2To62 / 2, ""},
      {"U8", {2, -1}, -1, "shape [2, -1]: dimension 1 is negative"},
      {"U8", {0, -1}, -1, "dimension 1 is negative"},
  };
  for (const Case& c : cases) {
    INFO(c.dtype << " " << c.bytes << " " << c.message);
    const auto bytes = TensorBytes(FindDType(std::string_view(c.dtype)).value(), c.shape);
    REQUIRE(bytes.ok() == (c.bytes >= 0));
    if (bytes.ok()) {
      CHECK(bytes.value() == static_cast<uint64_t>(c.bytes));
    } else {
      CHECK(bytes.status().code() == StatusCode::kInvalidArgument);
      CHECK(bytes.status().message().find(c.message) != std::string::npos);
    }
  }
}

TEST_CASE("a hostile dtype description divides nothing by zero") {
  const DTypeInfo empty{DType{99}, 0, 0, 0, "unknown", false, false};
  const int64_t shape[] = {4};
  CHECK_FALSE(TensorBytes(empty, shape).ok());
  const DTypeInfo weightless{DType{99}, 0, 1, 0, "unknown", false, false};
  CHECK(TensorBytes(weightless, shape).value() == 0);
}
