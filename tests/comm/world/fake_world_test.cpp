#include "weft/comm/world/fake_world.h"

#include "tests/support/error_text.h"
#include "weft/comm/collectives.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

namespace weft {

namespace fake_world_test {

using testing::error_text;

using Sizes = std::vector<int64_t>;

Sizes sizes_of(const AsyncTensor& value) {
  return value.wait().sizes().vec();
}

TEST(FakeWorld, GivesTheShapesOfFourThousandRanksToOne) {
  const auto world = make_fake_world(4096, /*rank=*/4095);
  EXPECT_EQ(world->size(), 4096);
  EXPECT_EQ(world->rank(), 4095);
  const DeviceMesh mesh(world, c10::kCPU, {64, 64}, {"dp", "tp"});
  const auto input = at::ones({2, 128});
  EXPECT_EQ(sizes_of(all_gather(input, mesh, 1, 0)), Sizes({128, 128}));
  EXPECT_EQ(sizes_of(all_gather(input, mesh, {0, 1}, 0)), Sizes({8192, 128}));
  EXPECT_EQ(sizes_of(reduce_scatter(input, mesh, 1, 1, ReduceOp::Sum)), Sizes({2, 2}));
  EXPECT_EQ(sizes_of(reduce_scatter(at::ones({100}), mesh, 1, 0, ReduceOp::Max)), Sizes({0}))
      << "100 = 50 chunks of 2, so the last ranks have none";
  EXPECT_EQ(sizes_of(all_reduce(input, mesh, {0, 1}, ReduceOp::Sum)), Sizes({2, 128}));
  EXPECT_EQ(sizes_of(all_to_all(input, mesh, 1, 1, 0)), Sizes({128, 2}));
  EXPECT_EQ(sizes_of(broadcast(input, mesh, 0, 3)), Sizes({2, 128}));
  EXPECT_EQ(sizes_of(scatter(input, mesh, 1, 1, 0)), Sizes({2, 2}));
  EXPECT_EQ(sizes_of(recv(input, mesh, 1, 0)), Sizes({2, 128}));
  EXPECT_TRUE(send(input, mesh, 1, 0).done());
  EXPECT_NO_THROW(barrier(mesh, {0, 1}));
}

TEST(FakeWorld, IsReadyAtOnceAndCanBeRepeated) {
  const DeviceMesh mesh(make_fake_world(4, /*rank=*/1), c10::kCPU, {4}, {"tp"});
  const auto gathered = all_gather(at::ones({2}), mesh, 0, 0);
  EXPECT_TRUE(gathered.ready());
  EXPECT_TRUE(at::equal(gathered.wait(), at::tensor({0, 0, 1, 1, 0, 0, 0, 0}).to(at::kFloat)));
  EXPECT_TRUE(at::equal(all_reduce(at::ones({2}), mesh, 0, ReduceOp::Sum).wait(), at::ones({2})));
  EXPECT_TRUE(at::equal(broadcast(at::ones({2}), mesh, 0, 0).wait(), at::zeros({2})));
}

TEST(FakeWorld, NeedsARankThatIsInIt) {
  EXPECT_EQ(
      error_text<c10::ValueError>([] { make_fake_world(4, 4); }),
      "[make_fake_world] a rank in [0, size) is required, but got rank 4 of 4.");
  EXPECT_EQ(
      error_text<c10::ValueError>([] { make_fake_world(0); }),
      "[make_fake_world] a rank in [0, size) is required, but got rank 0 of 0.");
}

} // namespace fake_world_test

} // namespace weft
