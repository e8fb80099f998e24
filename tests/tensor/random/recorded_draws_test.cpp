#include "weft/tensor/random/recorded_draws.h"

#include "tests/support/error_text.h"
#include "tests/support/layout_cases.h"
#include "weft/comm/world/fake_world.h"
#include "weft/tensor/random/random_fill.h"
#include "weft/tensor/random/random_indices.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace weft {

namespace recorded_draws_test {
using testing::error_text;

template <class... Arguments>
at::Tensor call(const char* name, Arguments... arguments) {
  torch::jit::Stack stack{c10::IValue(std::move(arguments))...};
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(stack);
  return stack[0].toTensor();
}

at::Tensor random_call(int64_t index) {
  return call("weft::random_call", index, std::optional<at::Device>());
}

TEST(RecordedDraws, ARunTakesAllCallsAtOnce) {
  manual_seed(7);
  next_random_call();
  {
    const DrawnCalls run({.calls = 3});
    EXPECT_EQ(random_state(), (RandomState{7, 4}));
    next_random_call(); // as another thread may draw meanwhile
    EXPECT_TRUE(at::equal(random_call(2), at::tensor({7, 3}, at::kLong)));
    EXPECT_TRUE(at::equal(random_call(0), at::tensor({7, 1}, at::kLong)));
  }
  EXPECT_EQ(random_state(), (RandomState{7, 5}));
}

TEST(RecordedDraws, RunsNest) {
  manual_seed(7);
  const DrawnCalls outer({.calls = 1});
  {
    const DrawnCalls inner({.calls = 1});
    EXPECT_TRUE(at::equal(random_call(0), at::tensor({7, 1}, at::kLong)));
  }
  EXPECT_TRUE(at::equal(random_call(0), at::tensor({7, 0}, at::kLong)));
}

TEST(RecordedDraws, OutsideOfARunThereIsNoCall) {
  EXPECT_EQ(
      error_text<c10::ValueError>([] { random_call(4); }),
      "[random] a program that torch.compile made is required for its draw 4, but got another. Call what torch.compile "
      "returned.");
}

TEST(RecordedDraws, TheOperatorGivesTheNumbersOfAFill) {
  const std::vector<int64_t> mesh_shape = {2, 3};
  const std::vector<int64_t> sizes = {7, 12};
  const std::vector<Placement> placements = {Replicate(), Shard(0), Shard(1), StridedShard(1, 2), StridedShard(0, 3)};
  for (const auto& layout : testing::all_layouts(2, 2, placements)) {
    for (int64_t rank = 0; rank < 6; ++rank) {
      const auto spec =
          TensorSpec::make(DeviceMesh(make_fake_world(6, rank), c10::kCPU, mesh_shape), layout, sizes, at::kFloat);
      const auto distribution = Distribution::normal(1, 2);
      const auto expected = at::empty(spec->local_shape_and_offset().shape);
      fill_random(expected, *spec, distribution, RandomCall{5, 2});
      const auto actual = call(
          "weft::random_numbers", at::tensor({5, 2}, at::kLong), LocalIndices::encoded(*spec), expected.sizes().vec(),
          at::kFloat, at::Device(at::kCPU), static_cast<int64_t>(distribution.kind), distribution.a, distribution.b,
          distribution.first, static_cast<int64_t>(distribution.count));
      EXPECT_TRUE(at::equal(actual, expected)) << layout << ", rank " << rank;
    }
  }
}

} // namespace recorded_draws_test
} // namespace weft
