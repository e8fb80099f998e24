#include "weft/graph/analysis/slice_range.h"

#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace slice_range_test {

std::string range_text(const std::string& call) {
  const auto program =
      parse_program("program\n    input %x: f32[2,8] = user\n      %y: f32[2,4] = " + call + "\n    output %y = user");
  const auto range = slice_range(*program.graph->first());
  return range ? c10::str(range->dim, ": ", range->begin, " to ", range->end) : "none";
}

TEST(SliceRange, PlacesAreCountedFromTheFrontAndStayInside) {
  EXPECT_EQ(range_text("aten::slice.Tensor(%x, -1, 4, 9)"), "1: 4 to 8");
  EXPECT_EQ(range_text("aten::slice.Tensor(%x, 1, -6, -2)"), "1: 2 to 6");
  EXPECT_EQ(range_text("aten::slice.Tensor(%x, 1)"), "1: 0 to 8");
  EXPECT_EQ(range_text("aten::slice.Tensor(%x, 1, None, 3)"), "1: 0 to 3");
}

TEST(SliceRange, StepsAndOtherOperatorsHaveNone) {
  EXPECT_EQ(range_text("aten::slice.Tensor(%x, 1, 0, 8, 2)"), "none");
  EXPECT_EQ(range_text("aten::relu(%x)"), "none");
}

} // namespace slice_range_test

} // namespace weft::graph
