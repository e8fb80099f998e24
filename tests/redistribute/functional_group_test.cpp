#include "weft/redistribute/functional_group.h"

#include "tests/support/functional_ranks.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace functional_group_test {

TEST(FunctionalGroup, OfOneMemberRecordsNothing) {
  run_on_ranks(2, [](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {1, 2}, {"a", "b"});
    const FunctionalGroup group(mesh, {0});
    const auto own = at::full({2}, static_cast<double>(rank));
    EXPECT_EQ(group.size(), 1);
    EXPECT_TRUE(group.all_reduce(own, ReduceOp::Sum).is_same(own));
    EXPECT_TRUE(group.all_gather(own).equal(own));
    EXPECT_TRUE(group.reduce_scatter(own, ReduceOp::Avg).equal(own));
    EXPECT_TRUE(group.all_to_all({own}, {{2}}, own.options())[0].equal(own));
  });
}

TEST(FunctionalGroup, AnAverageIsASumThatIsDivided) {
  run_on_ranks(2, [](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {2}, {"a"});
    const testing::FunctionalRanks collectives(mesh);
    for (const auto dtype : {at::kFloat, at::kHalf}) {
      const auto own = at::full({2}, rank == 0 ? 60000. : 30000., at::TensorOptions(dtype)); // the sum exceeds f16
      EXPECT_TRUE(FunctionalGroup(mesh, {0}).all_reduce(own, ReduceOp::Avg).equal(at::full_like(own, 45000.)));
    }
  });
}

TEST(FunctionalGroup, MembersMayExchangeNothing) {
  run_on_ranks(2, [](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {2}, {"a"});
    const testing::FunctionalRanks collectives(mesh);
    const std::vector<at::Tensor> sends = {at::Tensor(), rank == 0 ? at::ones({2, 3}) : at::Tensor()};
    const std::vector<c10::DimVector> shapes = {rank == 1 ? c10::DimVector{2, 3} : c10::DimVector{0}, {0}};
    const auto arrived = FunctionalGroup(mesh, {0}).all_to_all(sends, shapes, at::TensorOptions());
    EXPECT_EQ(arrived[0].defined(), rank == 1);
    EXPECT_FALSE(arrived[1].defined());
    EXPECT_TRUE(rank == 0 || arrived[0].equal(at::ones({2, 3})));
  });
}

} // namespace functional_group_test

} // namespace weft
