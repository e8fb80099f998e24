#include "weft/tensor/boundary.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

namespace weft {

namespace boundary_test {
TEST(Boundary, TheGradientOfATermIsThatOfTheSum) {
  EXPECT_EQ(
      default_gradient_layout({Shard(0), Partial(), Replicate(), Partial(ReduceOp::Max)}),
      (Layout{Shard(0), Replicate(), Replicate(), Replicate()}));
}

TEST(Boundary, TheOrderOfCutsStaysInTheGradient) {
  const auto layout = Layout::parse("{S(0)[1], P(sum), S(0)[0]}");
  EXPECT_EQ(default_gradient_layout(layout), Layout::parse("{S(0)[1], R, S(0)[0]}"));
}

TEST(Boundary, AnAverageIsASumThatIsDividedApart) {
  const auto spec = TensorSpec::parse("f32[4] @ mesh(a=2,b=3,c=5) {P(avg), P(sum), P(avg)}");
  EXPECT_EQ(averaged_over(*spec), 10);
  EXPECT_EQ(as_terms(spec->layout()), (Layout{Partial(), Partial(), Partial()}));
  EXPECT_EQ(averaged_over(*TensorSpec::parse("f32[4] @ mesh(a=2) {P(sum)}")), 1);
}

TEST(Boundary, AnUntrackedTensorSharesDataAndVersion) {
  const auto tensor = at::ones({2}).set_requires_grad(true);
  const auto plain = untracked(tensor);
  EXPECT_FALSE(plain.requires_grad());
  EXPECT_TRUE(plain.is_alias_of(tensor));
  const auto before = tensor._version();
  plain.add_(1);
  EXPECT_EQ(tensor._version(), before + 1);
}

TEST(Boundary, VersionsAreSharedWhereBothHaveOne) {
  const auto a = at::ones({2});
  const auto b = at::ones({2});
  share_version(a, b);
  const auto before = a._version();
  b.add_(1);
  EXPECT_EQ(a._version(), before + 1);
  const c10::InferenceMode inference;
  const auto c = at::ones({2});
  share_version(c, a);
  share_version(a, c);
  a.add_(1);
  EXPECT_EQ(b._version(), before + 2);
}

TEST(Boundary, IsRecordedWhatRequiresAGradientInGradMode) {
  const auto tensor = at::ones({2});
  EXPECT_FALSE(is_recorded(tensor));
  tensor.set_requires_grad(true);
  EXPECT_TRUE(is_recorded(tensor));
  const c10::NoGradGuard no_grad;
  EXPECT_FALSE(is_recorded(tensor));
}

} // namespace boundary_test

} // namespace weft
