#include "weft/comm/world/native_group.h"

#include "tests/support/fault_roles.h"
#include "tests/support/launch_store.h"
#include "tests/support/sample_tensors.h"
#include "weft/comm/communicator.h"
#include "weft/comm/world/fake_world.h"
#include "weft/comm/world/gloo.h"
#include "weft/comm/world/launch_environment.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <csignal>

namespace weft {

namespace native_group_test {

using testing::caught_by;
using testing::check_same;
using testing::expect_contains;
using testing::expect_ended_well;
using testing::reduced;
using testing::run_process_ranks;
using testing::sample;
using testing::say;
using testing::say_error_of;
using testing::with_gaps;

/// NCCL needs a GPU per rank, so the calls are tested on gloo, which has all of them but alltoall on lists.
struct NativeRanks {
  NativeRanks() {
    const auto environment = read_launch_environment().value();
    rank = environment.rank;
    size = environment.world_size;
    store = testing::launch_store();
    world = make_fake_world(size, rank);
    const auto channel =
        std::make_shared<BackendChannel>(store, make_gloo_backend(store, rank, size, default_timeout()));
    const DeviceMesh mesh(world, c10::kCPU, {size}, {"tp"});
    group = make_native_group(*world, describe_group(mesh, 0), channel);
  }

  std::vector<at::Tensor> samples(c10::IntArrayRef sizes) const {
    std::vector<at::Tensor> all;
    for (int64_t r = 0; r < size; ++r) {
      all.push_back(sample(r, sizes));
    }
    return all;
  }

  int64_t rank;
  int64_t size;
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<Communicator> world;
  std::shared_ptr<Group> group;
};

RANK_ROLE(native_collectives) {
  const NativeRanks ranks;
  auto& group = *ranks.group;
  const auto inputs = ranks.samples({3, 2});
  const auto& mine = inputs[ranks.rank];
  const auto right = (ranks.rank + 1) % ranks.size;
  const auto left = (ranks.rank + ranks.size - 1) % ranks.size;

  const auto gathered = at::empty({ranks.size * 3, 2});
  group.all_gather(with_gaps(mine), gathered.chunk(ranks.size, 0)).wait();
  check_same(gathered, at::cat(inputs, 0), "all_gather");

  gathered.zero_();
  group.all_gather(with_gaps(mine), gathered, 0, {3, 3, 3}).wait();
  check_same(gathered, at::cat(inputs, 0), "all_gather of equal lengths into one tensor");

  const auto columns = at::empty({3, ranks.size * 2});
  group.all_gather(mine, columns.chunk(ranks.size, 1)).wait();
  check_same(columns, at::cat(inputs, 1), "all_gather into outputs that are not contiguous");

  for (const auto op : {ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Product}) {
    const auto output = at::empty({3, 2});
    group.all_reduce(with_gaps(mine), output, op).wait();
    check_same(output, reduced(inputs, op), "all_reduce");
  }

  const auto large = ranks.samples({40'000});
  const auto sum = at::empty({40'000});
  group.all_reduce(large[ranks.rank], sum, ReduceOp::Sum).wait();
  check_same(sum, reduced(large, ReduceOp::Sum), "large all_reduce");

  const auto chunk = with_gaps(at::empty({1, 2}));
  group.reduce_scatter(mine.chunk(3, 0), chunk, ReduceOp::Sum).wait();
  check_same(chunk, reduced(inputs, ReduceOp::Sum).narrow(0, ranks.rank, 1), "reduce_scatter");

  const auto whole = mine.clone();
  const auto row = at::empty({1, 2});
  group.reduce_scatter(whole.chunk(3, 0), row, ReduceOp::Sum).wait();
  check_same(row, reduced(inputs, ReduceOp::Sum).narrow(0, ranks.rank, 1), "reduce_scatter of consecutive inputs");
  check_same(whole, mine, "its inputs");
  group.reduce_scatter({whole[2], whole[0], whole[1]}, row[0], ReduceOp::Sum).wait();
  check_same(row[0], reduced(inputs, ReduceOp::Sum)[(ranks.rank + 2) % 3], "reduce_scatter of inputs in another order");

  for (int64_t root = 0; root < ranks.size; ++root) {
    const auto tensor = with_gaps(mine);
    group.broadcast(tensor, root).wait();
    check_same(tensor, inputs[root], "broadcast");
  }

  const auto received = with_gaps(at::empty({3, 2}));
  auto sending = group.send(with_gaps(mine), right);
  group.recv(received, left).wait();
  sending.wait();
  check_same(received, inputs[left], "send and recv");

  TORCH_CHECK(!group.blocks_host());
  say("all is well");
  testing::meet_in_store(*ranks.store, "end", ranks.rank, ranks.size);
}

TEST(NativeGroup, RunsTheCollectivesOfTheBackend) {
  const auto ranks = run_process_ranks("native_collectives", 3);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    expect_ended_well(ranks, rank);
    EXPECT_TRUE(ranks[rank].has_line("all is well")) << describe(ranks);
  }
}

RANK_ROLE(native_unsupported) {
  const NativeRanks ranks;
  say_error_of([&] { ranks.group->barrier().wait(); });
  say_error_of([&] { ranks.group->send(at::ones({2}), 1 - ranks.rank).wait(); });
  testing::meet_in_store(*ranks.store, "end", ranks.rank, ranks.size);
}

TEST(NativeGroup, ACallThatTheBackendRefusesNamesTheCallAndTheGroup) {
  const auto ranks = run_process_ranks("native_unsupported", 2);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    expect_ended_well(ranks, rank);
    const auto text = caught_by(ranks, rank);
    expect_contains(text, "[barrier] call 0 of group tp (ranks 0,1) failed on rank " + std::to_string(rank) + ": ");
    expect_contains(text, "alltoall");
    expect_contains(text, "[send(to member");
    expect_contains(text, "group tp (ranks 0,1) cannot be used any more, because an earlier call failed: [barrier]");
  }
}

RANK_ROLE(native_killed) {
  const NativeRanks ranks;
  testing::meet_in_store(
      *ranks.store, "connected", ranks.rank, ranks.size); // a rank that dies earlier is another error
  if (ranks.rank == 1) {
    say("ready");
    testing::wait_to_be_killed();
  }
  const auto tensor = at::ones({4});
  say_error_of([&] { ranks.group->all_reduce(tensor, at::empty({4}), ReduceOp::Sum).wait(); });
  say_error_of([&] { ranks.group->all_reduce(tensor, at::empty({4}), ReduceOp::Sum).wait(); });
}

TEST(NativeGroup, AKilledRankIsAnErrorOnTheOthers) {
  const auto ranks = run_process_ranks("native_killed", 2, {.signals = {{1, "ready", 1, SIGKILL}}});
  expect_ended_well(ranks, 0);
  const auto text = caught_by(ranks, 0);
  expect_contains(text, "[all_reduce(sum) f32[4]] call 0 of group tp (ranks 0,1) failed on rank 0: ");
  expect_contains(text, "caught: [all_reduce(sum) f32[4]] group tp (ranks 0,1) cannot be used any more");
}

} // namespace native_group_test

} // namespace weft
