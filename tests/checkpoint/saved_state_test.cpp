#include "weft/checkpoint/saved_state.h"

#include "tests/support/error_text.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace saved_state_test {

using testing::error_text;
using testing::expect_contains;

std::string description(const std::string& name, const std::string& spec, const std::string& step = "1") {
  const auto parsed = TensorSpec::parse(spec);
  return description_of({.tensors = {{name, {at::ones({2}), parsed}}}, .values = {{"step", step}}});
}

TEST(SavedState, OfRanksThatHaveTheSameIsDescribedOnce) {
  const auto all = merged_state({description("x", "f32[4] @ mesh(tp=2) {S(0)}")}, 2);
  ASSERT_EQ(all.tensors.size(), 1u);
  EXPECT_EQ(all.tensors[0].name, "x");
  EXPECT_EQ(all.tensors[0].holders, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(all.values.at("step"), "1");
}

TEST(SavedState, OfRanksThatDifferMustFit) {
  const auto one = description("x", "f32[4] @ mesh(tp=2) {S(0)}");
  const auto other = description("y", "f32[4] @ mesh(tp=2) {S(0)}");
  expect_contains(
      error_text<c10::ValueError>([&] { merged_state({one, other}, 2); }),
      "[save] every rank of the mesh of 'x' must save it, but rank 1 does not");
  expect_contains(
      error_text<c10::ValueError>([&] { merged_state({one, description("x", "f32[4] @ mesh(tp=2) {R}")}, 2); }),
      "[save] 'x' must be the same on all ranks that have it, but rank 0 has ");
  expect_contains(
      error_text<c10::ValueError>([&] { merged_state({one, description("x", "f32[4] @ mesh(tp=2) {S(0)}", "2")}, 2); }),
      "[save] the value 'step' must be the same on all ranks that have it, but it is 1 and, on rank 1, 2.");
}

} // namespace saved_state_test

} // namespace weft
