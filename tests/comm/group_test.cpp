#include "weft/comm/group.h"

#include "tests/support/error_text.h"
#include "tests/support/sample_tensors.h"
#include "weft/comm/communicator.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/fake_world.h"
#include "weft/comm/world/run_on_ranks.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

namespace weft {

namespace group_test {

using testing::check_same;
using testing::error_text;

std::shared_ptr<Group> line_group() {
  const auto mesh = init_device_mesh("cpu", {current_world()->size()}, {"tp"});
  return Communicator::of(mesh).group(mesh, 0);
}

std::shared_ptr<Group> fake_group(int64_t size) {
  // Never destroyed, because a group refers to its communicator.
  static std::vector<c10::intrusive_ptr<Communicator>> worlds;
  worlds.push_back(make_fake_world(size, /*rank=*/1));
  return worlds.back()->group(DeviceMesh(worlds.back(), c10::kCPU, {size}, {"tp"}), 0);
}

std::vector<at::Tensor> empties(int64_t count, c10::IntArrayRef sizes) {
  std::vector<at::Tensor> tensors;
  for (int64_t i = 0; i < count; ++i) {
    tensors.push_back(at::empty(sizes));
  }
  return tensors;
}

TEST(Group, KnowsItsMembersAndSaysSo) {
  const auto group = fake_group(4);
  EXPECT_EQ(group->rank(), 1);
  EXPECT_EQ(group->size(), 4);
  EXPECT_EQ(group->ranks(), std::vector<int64_t>({0, 1, 2, 3}));
  EXPECT_EQ(group->label(), "tp");
  EXPECT_EQ(group->to_string(), "group tp (ranks 0,1,2,3)");
  EXPECT_TRUE(group->blocks_host());
}

TEST(Group, NamesTheFirstRanksOfALargeOne) {
  EXPECT_EQ(fake_group(16)->to_string(), "group tp (ranks 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15)");
  EXPECT_EQ(fake_group(4096)->to_string(), "group tp (ranks 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15, ... 4096 in all)");
}

TEST(Group, ReceivesTheBytesThatItsHeaderStates) {
  const auto bytes_of = [](const std::function<void(Group&)>& call) {
    const auto world = make_fake_world(4, /*rank=*/1);
    const DeviceMesh mesh(world, c10::kCPU, {4}, {"tp"});
    const CommLog log(mesh);
    call(*world->group(mesh, 0));
    return log.bytes();
  };
  const auto small = at::zeros({8});     // b = 32
  const auto large = at::zeros({40000}); // b = 160,000: takes two rounds
  EXPECT_EQ(bytes_of([&](Group& g) { g.all_gather(small, empties(4, {8})); }), 3 * 32);
  EXPECT_EQ(bytes_of([&](Group& g) { g.all_to_all(small.chunk(4), empties(4, {2})); }), 3 * 8);
  EXPECT_EQ(bytes_of([&](Group& g) { g.reduce_scatter(small.chunk(4), at::empty({2}), ReduceOp::Sum); }), 3 * 8);
  EXPECT_EQ(bytes_of([&](Group& g) { g.all_reduce(small, at::empty({8}), ReduceOp::Sum); }), 3 * 32);
  EXPECT_EQ(bytes_of([&](Group& g) { g.all_reduce(large, at::empty({40000}), ReduceOp::Sum); }), 2 * 120000);
  EXPECT_EQ(bytes_of([&](Group& g) { g.broadcast(small, 0); }), 32);
  EXPECT_EQ(bytes_of([&](Group& g) { g.broadcast(small, 1); }), 0) << "the root receives nothing";
  EXPECT_EQ(bytes_of([&](Group& g) { g.scatter({}, at::empty({2}), 0); }), 8);
  EXPECT_EQ(bytes_of([&](Group& g) { g.scatter(small.chunk(4), at::empty({2}), 1); }), 0);
  EXPECT_EQ(bytes_of([&](Group& g) { g.send(small, 0); }), 0);
  EXPECT_EQ(bytes_of([&](Group& g) { g.recv(small, 0); }), 32);
  EXPECT_EQ(bytes_of([&](Group& g) { g.barrier(); }), 0);
}

TEST(Group, ExchangesOnlyTheDefinedTensors) {
  run_on_ranks(4, [](int64_t rank) {
    // Only 0 -> 1 and 1 -> 2 send a tensor; rank 2 keeps a tensor for itself, and rank 3 has none at all.
    std::vector<at::Tensor> sends(4), recvs(4);
    if (rank < 2) {
      sends[rank + 1] = at::full({2}, rank);
    }
    if (rank == 1 || rank == 2) {
      recvs[rank - 1] = at::empty({2}, at::kLong);
    }
    if (rank == 2) {
      sends[2] = at::full({2}, 9);
      recvs[2] = at::empty({2}, at::kLong);
    }
    line_group()->all_to_all(sends, recvs).wait();
    if (rank == 1 || rank == 2) {
      check_same(recvs[rank - 1], at::full({2}, rank - 1), "the tensor from the left");
    }
    if (rank == 2) {
      check_same(recvs[2], at::full({2}, 9), "the tensor it kept");
    }
  });
}

TEST(Group, ReservedNumbersLetRanksMakeCallsAtDifferentTimes) {
  run_on_ranks(2, [](int64_t rank) {
    const auto group = line_group();
    const auto first = group->reserve();
    const auto second = group->reserve();
    const auto ones = at::ones({3});
    const auto sum = at::empty({3});
    const auto largest = at::empty({3});
    const auto add = [&] { return group->all_reduce(ones, sum, ReduceOp::Sum, first); };
    const auto take_largest = [&] { return group->all_reduce(ones * rank, largest, ReduceOp::Max, second); };
    auto a = rank == 0 ? add() : take_largest();
    auto b = rank == 0 ? take_largest() : add();
    b.wait();
    a.wait();
    check_same(sum, ones * 2, "the first call");
    check_same(largest, ones, "the second call");
  });
}

TEST(Group, ReducesWhatHasSuchAReductionAndRaisesElsewhereBeforeItCommunicates) {
  run_on_ranks(2, [](int64_t) {
    const auto group = line_group();
    const auto zeros = at::zeros({4}, at::kLong);
    EXPECT_EQ(
        error_text<c10::TypeError>([&] { group->all_reduce(zeros, at::empty_like(zeros), ReduceOp::Avg); }),
        "[all_reduce(avg) i64[4]] an average needs a floating point or complex dtype, but got i64. Reduce by sum, or "
        "convert first.");
    const auto complex = at::zeros({2}, at::kComplexFloat);
    for (const auto op : {ReduceOp::Max, ReduceOp::Min}) {
      EXPECT_EQ(
          error_text<c10::TypeError>(
              [&] { group->reduce_scatter(std::vector<at::Tensor>(2, complex), at::empty_like(complex), op); }),
          "[reduce_scatter(" + std::string(to_string(op)) +
              ") c64[2]] max and min need numbers that have an order, but got c64.");
    }
    const auto sum = at::empty({4}, at::kLong);
    group->all_reduce(zeros + 1, sum, ReduceOp::Sum).wait();
    check_same(sum, zeros + 2, "the group after the errors");
  });
}

TEST(Group, WritesIntoOutputsThatAreNotContiguous) {
  run_on_ranks(2, [](int64_t rank) {
    const auto table = at::zeros({3, 2}, at::kLong);
    const auto column = at::full({3}, rank + 1);
    line_group()->all_gather(column, table.unbind(1)).wait();
    check_same(table, at::arange(1, 3).expand({3, 2}), "columns gathered into a table");
  });
}

TEST(Group, GathersUnevenShardsIntoOneTensor) {
  const std::vector<int64_t> lengths = {2, 0, 3};
  run_on_ranks(3, [&](int64_t rank) {
    const auto group = line_group();
    const auto full = at::arange(20, at::kFloat).view({1, 5, 4});
    const auto begin = rank == 2 ? 2 : 0;
    for (const bool contiguous : {true, false}) {
      auto shard = full.narrow(1, begin, lengths[rank]);
      shard = contiguous ? shard.contiguous() : shard.transpose(1, 2).contiguous().transpose(1, 2);
      const auto output = at::empty({1, 5, 4});
      group->all_gather(shard, output, 1, lengths).wait();
      check_same(output, full, contiguous ? "contiguous" : "strided");
    }
  });
}

TEST(Group, DoesNotRecordWhatItDoesForAutograd) {
  run_on_ranks(2, [](int64_t) {
    const auto input = at::ones({3}).requires_grad_();
    const auto output = at::empty({3});
    line_group()->all_reduce(input, output, ReduceOp::Sum).wait();
    EXPECT_FALSE(output.requires_grad());
    EXPECT_TRUE(at::equal(output, at::full({3}, 2.0)));
  });
}

} // namespace group_test

} // namespace weft
