#include "weft/nn/cross_entropy_call.h"

#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"

#include <ATen/autocast_mode.h>

namespace weft::nn {

namespace cross_entropy_call_test {
using namespace weft::testing;

CrossEntropyCall call_of(const at::Tensor& logits, const at::Tensor& target) {
  return {logits, target, std::nullopt, at::Reduction::Mean, -100, 0};
}

TEST(CrossEntropyCall, ClassesAreDistributedIfTheyAreShardedOrPartial) {
  on_mesh({2, 1}, [](const DeviceMesh& mesh) {
    const auto target = at::zeros({4}, at::kLong);
    const auto is_distributed = [&](const Layout& layout) {
      return has_distributed_classes(call_of(from_local(at::ones({4, 6}), mesh, layout), target));
    };
    EXPECT_TRUE(is_distributed({Shard(1), Replicate()}));
    EXPECT_TRUE(is_distributed({Partial(), Replicate()}));
    EXPECT_FALSE(is_distributed({Shard(0), Replicate()}));
    EXPECT_FALSE(is_distributed({Replicate(), Shard(1)})) << "by one rank";
    EXPECT_FALSE(has_distributed_classes(call_of(at::ones({4, 6}), target))) << "plain";
  });
}

TEST(CrossEntropyCall, IsRegularWhereShapesAndDtypesFit) {
  const auto logits = at::ones({4, 6, 2});
  const auto classes = at::zeros({4, 2}, at::kLong);
  EXPECT_TRUE(is_regular(call_of(logits, classes)));
  EXPECT_TRUE(is_regular(call_of(logits, logits)));
  EXPECT_TRUE(is_regular(call_of(at::ones({6}), at::zeros({}, at::kLong))));
  EXPECT_FALSE(is_regular(call_of(logits, classes.to(at::kByte))));
  EXPECT_FALSE(is_regular(call_of(logits, at::zeros({4}, at::kLong))));
  EXPECT_FALSE(is_regular(call_of(logits, logits.to(at::kLong))));
  EXPECT_FALSE(is_regular(call_of(at::ones({4, 0}), at::zeros({4}, at::kLong))));
  auto weighted = call_of(logits, classes);
  weighted.weight = at::ones({6});
  EXPECT_TRUE(is_regular(weighted));
  weighted.weight = at::ones({6}, at::kDouble);
  EXPECT_FALSE(is_regular(weighted));
  weighted.weight = at::ones({6}).set_requires_grad(true);
  EXPECT_FALSE(is_regular(weighted));
  auto smoothed = call_of(logits, classes);
  smoothed.label_smoothing = 1.5;
  EXPECT_FALSE(is_regular(smoothed));
}

TEST(CrossEntropyCall, TheLossHasTheDtypeThatASingleDeviceGives) {
  const auto narrow = at::ones({4, 6}, at::kBFloat16);
  const auto classes = at::zeros({4}, at::kLong);
  EXPECT_EQ(loss_dtype(call_of(narrow, classes)), at::kBFloat16);
  EXPECT_EQ(loss_dtype(call_of(narrow, at::ones({4, 6}))), at::kFloat);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  EXPECT_EQ(loss_dtype(call_of(narrow, classes)), at::kFloat);
  at::autocast::set_autocast_enabled(at::kCPU, false);
}

} // namespace cross_entropy_call_test

} // namespace weft::nn
