#include "weft/comm/world/nccl.h"

#include "tests/support/sample_tensors.h"
#include "weft/comm/collectives.h"
#include "weft/comm/world/c10d_world.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace weft {

namespace nccl_test {

// One device allows one rank: a larger group is tested on machines with more devices.
struct NcclTest : ::testing::Test {
  c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
  c10::intrusive_ptr<c10d::Backend> backend = make_nccl_backend(store, 0, 1, std::chrono::minutes(1));
  at::Tensor input = testing::sample(0, {4, 2}).to(at::kCUDA);

  void expect_input(const at::Tensor& output) const {
    EXPECT_TRUE(at::equal(output.cpu(), input.cpu()));
  }
};

TEST_F(NcclTest, KnowsItsNameRankAndSize) {
  EXPECT_EQ(backend->getBackendName(), "nccl");
  EXPECT_EQ(backend->getRank(), 0);
  EXPECT_EQ(backend->getSize(), 1);
}

TEST_F(NcclTest, RunsTheCollectivesThatWeftCalls) {
  std::vector<at::Tensor> inputs = {input};
  std::vector<at::Tensor> outputs = {at::zeros_like(input)};
  std::vector<std::vector<at::Tensor>> lists = {outputs};
  backend->allgather(lists, inputs)->wait();
  expect_input(outputs[0]);

  outputs[0].zero_();
  lists = {inputs};
  backend->reduce_scatter(outputs, lists)->wait();
  expect_input(outputs[0]);

  outputs[0].zero_();
  backend->alltoall(outputs, inputs)->wait();
  expect_input(outputs[0]);

  backend->allreduce(outputs)->wait();
  backend->broadcast(outputs)->wait();
  expect_input(outputs[0]);
}

TEST_F(NcclTest, ServesAMeshOfOneDevice) {
  const auto world = make_c10d_world(store, 0, 1, std::chrono::minutes(1));
  const DeviceMesh mesh(world, c10::kCUDA, {1}, {"tp"});
  expect_input(all_gather(input, mesh, 0, 0).wait());
  expect_input(reduce_scatter(input, mesh, 0, 0, ReduceOp::Sum).wait());
  expect_input(all_reduce(input, mesh, 0, ReduceOp::Avg).wait());
  expect_input(all_to_all(input, mesh, 0, 0, 1).wait());
  expect_input(broadcast(input, mesh, 0, 0).wait());
  expect_input(scatter(input, mesh, 0, 0, 0).wait());
  EXPECT_NO_THROW(barrier(mesh, 0));
}

} // namespace nccl_test

} // namespace weft
