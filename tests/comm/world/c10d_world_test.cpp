#include "weft/comm/world/c10d_world.h"

#include "tests/support/collective_checks.h"
#include "tests/support/fault_roles.h"
#include "tests/support/launch_store.h"
#include "tests/support/scoped_environment.h"
#include "weft/comm/collectives.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/gloo.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <csignal>
#include <thread>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace weft {

namespace c10d_world_test {

using testing::caught_by;
using testing::error_text;
using testing::expect_contains;
using testing::expect_ended_well;
using testing::free_port;
using testing::run_process_ranks;
using testing::run_under_launcher;
using testing::say;
using testing::say_error_of;
using testing::ScopedEnvironment;

using Ranks = std::vector<int64_t>;

DeviceMesh line_of_ranks() {
  return init_device_mesh("cpu", {current_world()->size()}, {"dp"});
}

DeviceMesh prompt_line_of_ranks() {
  const auto world = testing::make_prompt_world();
  return DeviceMesh(world, c10::kCPU, {world->size()}, {"dp"});
}

RANK_ROLE(sums_ranks) {
  const auto mesh = line_of_ranks();
  const auto rank = mesh.world()->rank();
  const auto sum = all_reduce(at::full({1}, rank + 1), mesh, 0, ReduceOp::Sum).wait().item<int64_t>();
  say("rank ", rank, " of ", mesh.size(), " has the sum ", sum);
  barrier(mesh, 0);
}

TEST(C10dWorld, ConnectsRanksThatEnvironmentVariablesDescribe) {
  const auto ranks = run_process_ranks("sums_ranks", 3);
  for (size_t rank = 0; rank < 3; ++rank) {
    expect_ended_well(ranks, rank);
    EXPECT_TRUE(ranks[rank].has_line("rank " + std::to_string(rank) + " of 3 has the sum 6")) << describe(ranks);
  }
}

TEST(C10dWorld, ConnectsRanksThatTorchrunStarts) {
  const auto launcher = run_under_launcher(
      {testing::python_program(), "-m", "torch.distributed.run", "--no-python", "--nproc-per-node", "2",
       "--master-port", std::to_string(free_port())},
      "sums_ranks");
  EXPECT_EQ(launcher.exit_code, 0) << launcher.output;
  EXPECT_TRUE(launcher.has_line("rank 0 of 2 has the sum 3")) << launcher.output;
  EXPECT_TRUE(launcher.has_line("rank 1 of 2 has the sum 3")) << launcher.output;
}

TEST(C10dWorld, ConnectsRanksThatMpirunStarts) {
  const auto launcher = run_under_launcher(
      {"mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2"}, "sums_ranks",
      {.environment = {{"MASTER_PORT", std::to_string(free_port())}}});
  EXPECT_EQ(launcher.exit_code, 0) << launcher.output;
  EXPECT_TRUE(launcher.has_line("rank 0 of 2 has the sum 3")) << launcher.output;
  EXPECT_TRUE(launcher.has_line("rank 1 of 2 has the sum 3")) << launcher.output;
}

TEST(C10dWorld, ConnectsRanksThatHaveOnlyOpenMpisVariables) {
  const auto ranks =
      run_process_ranks("sums_ranks", 2, {.rank_variables = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}});
  for (size_t rank = 0; rank < 2; ++rank) {
    expect_ended_well(ranks, rank);
    EXPECT_TRUE(ranks[rank].has_line("rank " + std::to_string(rank) + " of 2 has the sum 3")) << describe(ranks);
  }
}

/// The number of wrong results of a few hundred calls, small and of two stages, with known results.
int64_t count_wrong(const DeviceMesh& mesh, double weight) {
  const auto rank = static_cast<double>(mesh.world()->rank());
  int64_t wrong = 0;
  for (int64_t i = 0; i < 200; ++i) {
    const auto length = i % 10 == 0 ? 200'000 : 8;
    const auto sum = all_reduce(at::full({length}, weight * (rank + 1)), mesh, 0, ReduceOp::Sum);
    const auto gathered = all_gather(at::full({2}, weight * rank), mesh, 0, 0).wait();
    wrong += at::equal(sum.wait(), at::full({length}, weight * 3)) ? 0 : 1;
    wrong += at::equal(gathered, at::tensor({0.0, 0.0, weight, weight}, at::kFloat)) ? 0 : 1;
  }
  return wrong;
}

RANK_ROLE(uses_two_meshes_on_two_threads) {
  const auto world = current_world();
  const auto run = [&](const char* name, double weight) {
    return [&world, name, weight] {
      say(name, " wrong: ", count_wrong(DeviceMesh(world, c10::kCPU, {2}, {name}), weight));
    };
  };
  // The ranks begin with different meshes, so that their threads make them in different orders.
  const bool is_first = world->rank() == 0;
  std::thread other(is_first ? run("dp", 12) : run("tp", 24));
  is_first ? run("tp", 24)() : run("dp", 12)();
  other.join();
  barrier(DeviceMesh(world, c10::kCPU, {2}, {"end"}), 0);
}

TEST(C10dWorld, TwoThreadsOfEveryRankUseTwoMeshesOverTheSameRanks) {
  const auto ranks = run_process_ranks("uses_two_meshes_on_two_threads", 2);
  for (size_t rank = 0; rank < 2; ++rank) {
    expect_ended_well(ranks, rank);
    EXPECT_TRUE(ranks[rank].has_line("dp wrong: 0") && ranks[rank].has_line("tp wrong: 0")) << describe(ranks);
  }
}

RANK_ROLE(makes_many_meshes) {
  const auto world = current_world();
  const auto rank = world->rank();
  std::vector<DeviceMesh> held;
  for (int64_t i = 0; i < 60; ++i) {
    const DeviceMesh mesh(world, c10::kCPU, {2}, {"d" + std::to_string(i % 40)});
    const auto sum = all_reduce(at::full({1}, rank + i), mesh, 0, ReduceOp::Sum).wait().item<int64_t>();
    TORCH_CHECK(sum == 2 * i + 1, "the sum is ", sum);
    // One rank releases its meshes later than the other.
    held.push_back(mesh);
    if (static_cast<int64_t>(held.size()) > (rank == 0 ? 3 : 0)) {
      held.erase(held.begin());
    }
  }
  held.clear();
  say("groups ", world->group_count(), ", few connections: ", connected_channels(*world) <= 6);
  barrier(DeviceMesh(world, c10::kCPU, {2}, {"end"}), 0);
}

TEST(C10dWorld, MeshesThatAreGoneLeaveNoGroupsAndFewConnectionsBehind) {
  const auto ranks = run_process_ranks("makes_many_meshes", 2);
  for (size_t rank = 0; rank < 2; ++rank) {
    expect_ended_well(ranks, rank);
    EXPECT_TRUE(ranks[rank].has_line("groups 0, few connections: 1")) << describe(ranks);
  }
}

RANK_ROLE(never_comes_to_the_world) {
  const auto rank = read_launch_environment()->rank;
  if (rank == 2) {
    testing::wait_to_be_killed();
  }
  say_error_of([] { current_world(); });
  say("done");
  if (rank == 0) {
    testing::wait_to_be_continued(); // it serves the store, which the other ranks still read
  }
}

TEST(C10dWorld, ARankThatNeverComesToTheWorldIsNamedByTheOthers) {
  const auto ranks = run_process_ranks(
      "never_comes_to_the_world", 3,
      {.timeout = std::chrono::seconds(5), .signals = {{1, "done", 0, SIGCONT}, {1, "done", 2, SIGKILL}}});
  for (const size_t rank : {0, 1}) {
    expect_ended_well(ranks, rank);
    expect_contains(
        caught_by(ranks, rank),
        "[comm] the world was not complete within 5000 ms on rank " + std::to_string(rank) +
            ": ranks 2 of 0,1,2 have not arrived (");
  }
}

RANK_ROLE(never_comes_to_a_group) {
  const auto mesh = prompt_line_of_ranks();
  const auto rank = mesh.world()->rank();
  if (rank == 2) {
    testing::wait_to_be_killed();
  }
  say_error_of([&] { barrier(mesh, 0); });
  say("groups: ", Communicator::of(mesh).group_count());
  say("done");
  if (rank == 0) {
    testing::wait_to_be_continued();
  }
}

TEST(C10dWorld, ARankThatNeverComesToAGroupIsNamedByTheOthers) {
  const auto ranks = run_process_ranks(
      "never_comes_to_a_group", 3,
      {.timeout = std::chrono::seconds(3), .signals = {{1, "done", 0, SIGCONT}, {1, "done", 2, SIGKILL}}});
  for (const size_t rank : {0, 1}) {
    expect_ended_well(ranks, rank);
    expect_contains(
        caught_by(ranks, rank),
        "[comm] group dp was not complete within 3000 ms on rank " + std::to_string(rank) +
            ": ranks 2 of 0,1,2 have not arrived (");
    EXPECT_TRUE(ranks[rank].has_line("groups: 0")) << describe(ranks);
  }
}

RANK_ROLE(loses_the_store) {
  const auto mesh = prompt_line_of_ranks();
  const auto rank = mesh.world()->rank();
  barrier(mesh, 0);
  if (rank == 0) {
    say("ready");
    testing::wait_to_be_killed();
  }
  say_error_of([&] { barrier(mesh, 0); });
  const DeviceMesh rest(mesh.world(), c10::kCPU, {2}, Ranks{1, 2}, {"rest"});
  say_error_of([&] { barrier(rest, 0); }, "rest: ");
}

TEST(C10dWorld, WithoutTheRankThatServesTheStoreTheOthersGetErrors) {
  const auto ranks = run_process_ranks(
      "loses_the_store", 3, {.timeout = std::chrono::seconds(5), .signals = {{0, "ready", 0, SIGKILL}}});
  for (const size_t rank : {1, 2}) {
    expect_ended_well(ranks, rank);
    expect_contains(caught_by(ranks, rank), "[barrier] call 1 of group dp (ranks 0,1,2) failed on rank");
    expect_contains(caught_by(ranks, rank, "rest: "), "[comm] group rest was not complete within 5000 ms on rank");
    expect_contains(
        caught_by(ranks, rank, "rest: "),
        "it is unknown which of ranks 1,2 have not arrived, because the rank that serves the store is gone");
  }
}

TEST(C10dWorld, ARankThatDiesWhileAGroupIsConnectedIsAnErrorThatNamesTheGroup) {
  // A rank that has announced itself and then does not connect.
  const auto store = c10::make_intrusive<c10d::HashStore>();
  for (const char* key : {"arrived/1", "meeting/tp from rank 0 of mesh(tp=2)/arrived/1"}) {
    store->set(key, std::vector<uint8_t>{'0'});
  }
  const auto world = make_c10d_world(store, 0, 2, std::chrono::milliseconds(500));
  const DeviceMesh mesh(world, c10::kCPU, {2}, {"tp"});
  const auto text = error_text<c10::DistBackendError>([&] { barrier(mesh, 0); });
  expect_contains(text, "[comm] group tp (ranks 0,1) could not be connected on rank 0: ");
  expect_contains(text, "A rank has died or is stuck");
}

TEST(C10dWorld, AStoreThatCannotBeReachedIsAnErrorThatSaysWhere) {
  const ScopedEnvironment timeout(ScopedEnvironment::Values{{"WEFT_TIMEOUT_SECONDS", "1"}});
  const auto port = free_port();
  const auto text = error_text<c10::DistBackendError>([&] {
    make_c10d_world(LaunchEnvironment{
        .rank = 1,
        .world_size = 2,
        .master_address = "127.0.0.1",
        .master_port = port,
        .launcher_serves_store = false,
        .attempt = 0});
  });
  expect_contains(text, "[comm] rank 1 of 2 could not reach the store at 127.0.0.1:" + std::to_string(port) + ": ");
  expect_contains(text, "Check MASTER_ADDR and MASTER_PORT, and that rank 0 has started.");
}

TEST(C10dWorld, AStoreThatCannotBeServedIsAnErrorThatSaysWhere) {
  const auto port = free_port();
  const int taken = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(static_cast<uint16_t>(port));
  ASSERT_EQ(bind(taken, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(taken, 1), 0);
  const auto text = error_text<c10::DistBackendError>([&] {
    make_c10d_world(LaunchEnvironment{
        .rank = 0,
        .world_size = 1,
        .master_address = "127.0.0.1",
        .master_port = port,
        .launcher_serves_store = false,
        .attempt = 0});
  });
  close(taken);
  expect_contains(text, "[comm] rank 0 of 1 could not serve the store at 127.0.0.1:" + std::to_string(port) + ": ");
}

RANK_ROLE(stands_on_existing_groups) {
  const auto environment = read_launch_environment().value();
  const auto rank = environment.rank;
  const auto store = testing::launch_store();
  const auto group = [&](const std::string& name, const Ranks& ranks) {
    const auto own = c10::make_intrusive<c10d::PrefixStore>(name + std::to_string(ranks[0]), store);
    const auto position = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
    return ExistingGroup{make_gloo_backend(own, position, 2, default_timeout()), ranks};
  };
  const auto rows = group("row", {rank / 2 * 2, rank / 2 * 2 + 1});
  const auto columns = group("column", {rank % 2, rank % 2 + 2});
  const auto mesh = mesh_from_groups(
      c10::kCPU, {columns, rows}, {2, 2}, {0, 1, 2, 3}, {"dp", "tp"},
      c10::make_intrusive<c10d::PrefixStore>("weft", store), rank, 4);
  TORCH_CHECK(mesh.to_string() == "mesh(dp=2,tp=2)");
  TORCH_CHECK(mesh.coordinate() == c10::IntArrayRef({rank / 2, rank % 2}));
  TORCH_CHECK(Communicator::of(mesh).group_count() == 0);
  TORCH_CHECK(Communicator::of(mesh).group(mesh, 1)->ranks() == rows.ranks);
  testing::check_wait_orders(mesh);
  testing::check_comm_log(mesh);
  TORCH_CHECK(connected_channels(Communicator::of(mesh)) == 1, "only the group of both dims is made through the store");
  all_reduce(at::ones({2}), mesh.submesh({"tp"}), 0, ReduceOp::Sum).wait();
  TORCH_CHECK(connected_channels(Communicator::of(mesh)) == 1, "a sub-mesh stands on the groups of its mesh");
  testing::check_lazy_groups(mesh);
  say("all is well");
  testing::meet_in_store(*store, "end", rank, 4);
}

TEST(MeshFromGroups, StandsOnTheGroupsGivenAndMakesFusedOnesThroughTheStore) {
  const auto ranks = run_process_ranks("stands_on_existing_groups", 4);
  for (size_t rank = 0; rank < 4; ++rank) {
    expect_ended_well(ranks, rank);
    EXPECT_TRUE(ranks[rank].has_line("all is well")) << describe(ranks);
  }
}

TEST(MeshFromGroups, NeedsAGroupPerDimWithTheRanksOfTheMesh) {
  const auto mesh_of = [](std::vector<ExistingGroup> groups) {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    mesh_from_groups(c10::kCPU, groups, {2, 2}, {0, 1, 2, 3}, {"dp", "tp"}, store, 1, 4);
  };
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { mesh_of({{{}, {1, 3}}}); }),
      "[mesh_from_groups] one group per mesh dim is required, but got 1 groups for shape [2, 2].");
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { mesh_of({{{}, {1, 3}}, {{}, {1, 2}}}); }),
      "[mesh_from_groups] the group of mesh dim tp of mesh(dp=2,tp=2) must have ranks 0,1 on rank 1, but got 1,2.");
  EXPECT_NO_THROW(mesh_of({{{}, {1, 3}}, {{}, {0, 1}}}));
}

} // namespace c10d_world_test

} // namespace weft
