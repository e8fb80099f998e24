#include "weft/comm/world/named_groups.h"

#include "tests/support/fault_roles.h"
#include "tests/support/launch_store.h"
#include "weft/comm/communicator.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/gloo.h"
#include "weft/comm/world/run_on_ranks.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace weft {

namespace named_groups_test {

using testing::error_text;
using testing::expect_contains;
using testing::expect_ended_well;
using testing::run_process_ranks;
using testing::say;

/// A process group of all ranks over gloo, as torch.distributed makes one.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    const c10::intrusive_ptr<c10d::Store>& store,
    const std::string& prefix,
    int64_t rank,
    int64_t size) {
  const auto own = c10::make_intrusive<c10d::PrefixStore>(prefix, store);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(own, static_cast<int>(rank), static_cast<int>(size));
  group->setBackend(
      c10::kCPU, c10d::ProcessGroup::BackendType::GLOO, make_gloo_backend(own, rank, size, std::chrono::seconds(20)));
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  return group;
}

float sum_of_ranks(const std::string& name) {
  const auto group = named_group(name, c10::kCPU);
  const auto output = at::empty({1});
  group->all_reduce(at::full({1}, static_cast<double>(group->rank() + 1)), output, ReduceOp::Sum).wait();
  return output.item<float>();
}

TEST(NamedGroups, NamesOfMeshDimsAreTheirGroups) {
  run_on_ranks(4, [](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {2, 2}, {"dp", "tp"});
    const NamedGroupScope scope(groups_of(mesh));
    EXPECT_EQ(named_group("tp", c10::kCPU), Communicator::of(mesh).group(mesh, {1}));
    EXPECT_EQ(named_group("dp,tp", c10::kCPU)->size(), 4);
    EXPECT_EQ(named_place("dp").rank, rank / 2);
    EXPECT_EQ(named_place("dp").size, 2);
    EXPECT_EQ(NamedGroupScope::find("dp,pp"), nullptr);
  });
}

TEST(NamedGroups, TheInnermostScopeThatKnowsANameCounts) {
  run_on_ranks(2, [](int64_t) {
    const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
    const auto other = init_device_mesh("cpu", {2, 1}, {"dp", "tp"});
    const NamedGroupScope outer(groups_of(other));
    {
      const NamedGroupScope inner(groups_of(mesh));
      EXPECT_EQ(named_group("tp", c10::kCPU)->size(), 2);
      EXPECT_EQ(named_group("dp", c10::kCPU)->size(), 2);
    }
    EXPECT_EQ(named_group("tp", c10::kCPU)->size(), 1);
  });
  EXPECT_EQ(NamedGroupScope::find("tp"), nullptr);
}

TEST(NamedGroups, AnUnknownNameIsAnError) {
  EXPECT_EQ(
      error_text<c10::ValueError>([] { named_group("unknown", c10::kCPU); }),
      "[named_group] the name of a group is required, but got 'unknown', which is neither of mesh dims of the program "
      "that "
      "runs nor of a process group of c10d.");
}

RANK_ROLE(asks_c10d) {
  const auto store = testing::launch_store();
  const auto rank = std::stoll(std::getenv("RANK"));
  testing::meet_in_store(*store, "start", rank, 2);
  for (const std::string prefix : {"first", "second"}) {
    auto process_group = make_process_group(store, prefix, rank, 2);
    c10d::register_process_group("pair-0", process_group);
    say(prefix, " sum ", sum_of_ranks("pair-0"));
    const auto group = named_group("pair-0", c10::kCPU);
    say(prefix, " place ", named_place("pair-0").rank == rank, " label ", group->label());
    say(prefix, " kept ", named_group("pair-0", c10::kCPU).get() == group.get());
    const c10::weak_intrusive_ptr<c10d::ProcessGroup> weak(process_group);
    c10d::unregister_process_group("pair-0");
    process_group.reset();
    say(prefix, " let go ", weak.expired());
    testing::meet_in_store(*store, prefix + " done", rank, 2);
  }
  testing::say_error_of([] { named_group("pair-0", c10::kCPU); });
}

TEST(NamedGroups, AProcessGroupOfC10dIsWrappedAndNotHeld) {
  const auto ranks = run_process_ranks("asks_c10d", 2);
  for (size_t rank = 0; rank < 2; ++rank) {
    for (const std::string prefix : {"first", "second"}) {
      EXPECT_TRUE(ranks[rank].has_line(prefix + " sum 3")) << ranks[rank].output;
      EXPECT_TRUE(ranks[rank].has_line(prefix + " place 1 label group_pair_0")) << ranks[rank].output;
      EXPECT_TRUE(ranks[rank].has_line(prefix + " kept 1")) << ranks[rank].output;
      EXPECT_TRUE(ranks[rank].has_line(prefix + " let go 1")) << ranks[rank].output;
    }
    expect_contains(testing::caught_by(ranks, rank), "but got 'pair-0', which is neither");
    expect_ended_well(ranks, rank);
  }
}

} // namespace named_groups_test

} // namespace weft
