#include "weft/graph/overlap/collective_text.h"

#include "tests/support/forms_of.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace collective_text_test {
TEST(CollectiveText, ThereIsALineForEach) {
  EXPECT_EQ(
      testing::forms_of(R"(program @ mesh(dp=2,tp=2)
      input %x: f32[5,8] {R, S(0)} = user
      input %p: f32[4,8] {P(sum), P(sum)} = user
      input %q: f32[8,8] {S(0), S(1)} = user
        %g: f32[5,8] {R, R} = all_gather(%x, tp: {R, S(0)} -> {R, R})
        %r: f32[4,8] {S(1), P(sum)} = reduce_scatter(%p, dp: {P(sum), P(sum)} -> {S(1), P(sum)})
        %a: f32[4,8] {P(sum), R} = all_reduce(%p, tp: {P(sum), P(sum)} -> {P(sum), R})
        %b: f32[8,8] {R, R} = all_gather(%q, dp,tp: {S(0), S(1)} -> {R, R})
      output %g = user
      output %r = user
      output %a = user
      output %b = user)"),
      "gather %x -> %g along 0 of size 5 over tp of 2: %g\n"
      "gather %b: dims 0 and 1 are sharded at once\n"
      "scatter(sum) %p -> %r along 1 over dp of 2: %r; kept\n"
      "reduction(sum) %p -> %a over tp of 2: %a\n");
}

} // namespace collective_text_test

} // namespace weft::graph
