#include "base/ordinal.h"

#include <type_traits>

#include "tests/support/catch.h"

using namespace dsckpt;

namespace {

using Row = Ordinal<struct RowTag>;
using Column = Ordinal<struct ColumnTag>;

template <typename Vector, typename Index>
concept IndexedBy = requires(Vector vector, Index index) {
  vector[index];
};

static_assert(IndexedBy<OrdinalVector<Row, int>, Row>);
static_assert(!IndexedBy<OrdinalVector<Row, int>, Column>);
static_assert(!IndexedBy<OrdinalVector<Row, int>, size_t>);
static_assert(!std::is_convertible_v<int, Row> && !std::is_convertible_v<Row, uint32_t>);
static_assert(sizeof(OptionalOrdinal<RowTag, uint16_t>) == 2);

}  // namespace

TEST_CASE("ordinals: positions of a vector, and none") {
  OrdinalVector<Row, int> squares(4);
  for (const Row i : PositionsOf(squares)) squares[i] = static_cast<int>(i.value() * i.value());
  CHECK(squares[Row(3)] == 9);
  CHECK(Row(2) < Row(3));
  using MaybeRow = OptionalOrdinal<RowTag, uint16_t>;
  CHECK_FALSE(MaybeRow());
  CHECK(MaybeRow(0));
  CHECK(MaybeRow(0).value() == 0);
  CHECK(MaybeRow(65534).value() == 65534);
}
