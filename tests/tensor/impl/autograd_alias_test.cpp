#include "weft/tensor/impl/autograd_alias.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

namespace weft {

namespace autograd_alias_test {
TEST(AutogradAlias, AnUntrackedTensorSharesDataAndVersion) {
  const auto tensor = at::ones({2}).set_requires_grad(true);
  const auto plain = untracked(tensor);
  EXPECT_FALSE(plain.requires_grad());
  EXPECT_TRUE(plain.is_alias_of(tensor));
  const auto before = tensor._version();
  plain.add_(1);
  EXPECT_EQ(tensor._version(), before + 1);
}

TEST(AutogradAlias, VersionsAreSharedWhereBothHaveOne) {
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

TEST(AutogradAlias, IsRecordedWhatRequiresAGradientInGradMode) {
  const auto tensor = at::ones({2});
  EXPECT_FALSE(is_recorded(tensor));
  tensor.set_requires_grad(true);
  EXPECT_TRUE(is_recorded(tensor));
  const c10::NoGradGuard no_grad;
  EXPECT_FALSE(is_recorded(tensor));
}

} // namespace autograd_alias_test

} // namespace weft
