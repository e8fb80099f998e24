#include "tests/support/group_faults.h"

#include "tests/support/fault_roles.h"
#include "tests/support/launch_store.h"
#include "weft/comm/collectives.h"
#include "weft/comm/subject_scope.h"
#include "weft/comm/world/c10d_world.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <csignal>
#include <thread>

namespace weft::testing {

namespace {

constexpr int64_t kLarge = 7'000'000; // so that no backend copies a chunk when it is sent

DeviceMesh line_of_ranks(const c10::intrusive_ptr<c10d::Store>& store = launch_store()) {
  const auto world = make_prompt_world(store);
  const DeviceMesh mesh(world, c10::kCPU, {world->size()}, {"dp"});
  barrier(mesh, 0);
  return mesh;
}

/// The errors that every other rank must report after a failed large all_reduce, and after one more call.
void expect_all_reduce_failed(const std::vector<Outcome>& ranks, size_t rank) {
  const auto text = caught_by(ranks, rank);
  expect_contains(
      text,
      "[all_reduce(sum) f32[7000000]] call 1 of group dp (ranks 0,1,2) failed on rank " + std::to_string(rank) + ": ");
  expect_contains(text, "A rank has died, is stuck, or made another call");
  expect_contains(
      text,
      "caught: [all_gather f32[1]] group dp (ranks 0,1,2) cannot be used any more, because an earlier "
      "call failed: [all_reduce(sum) f32[7000000]] call 1 of group dp");
  expect_ended_well(ranks, rank);
}

void all_reduce_then_all_gather(const DeviceMesh& mesh) {
  say_error_of([&] { all_reduce(at::ones({kLarge}), mesh, 0, ReduceOp::Sum).wait(); });
  // This call's deadline is far away: it fails because the group has failed.
  say_error_of([&] { all_gather(at::ones({1}), mesh, 0, 0).wait(); });
}

RANK_ROLE(killed_inside_all_reduce) {
  const auto mesh = line_of_ranks();
  if (mesh.world()->rank() == 1) {
    const auto never = all_reduce(at::ones({kLarge}), mesh, 0, ReduceOp::Sum);
    say("inside");
    wait_to_be_killed();
  }
  all_reduce_then_all_gather(mesh);
}

RANK_ROLE(stopped_inside_all_reduce) {
  const auto mesh = line_of_ranks();
  if (mesh.world()->rank() == 1) {
    auto never = all_reduce(at::ones({kLarge}), mesh, 0, ReduceOp::Sum);
    say("inside");
    wait_to_be_continued();
    say_error_of([&] { never.wait(); });
    return;
  }
  all_reduce_then_all_gather(mesh);
  if (mesh.world()->rank() == 0) {
    wait_to_be_continued();
  }
  say("survived");
}

RANK_ROLE(leaves_early) {
  const auto mesh = line_of_ranks();
  if (mesh.world()->rank() != 1) {
    all_reduce_then_all_gather(mesh);
  }
}

RANK_ROLE(throws_among_transfers) {
  const auto store = launch_store();
  const auto mesh = line_of_ranks(store);
  const auto rank = mesh.world()->rank();
  const auto first = all_reduce(at::ones({kLarge}), mesh, 0, ReduceOp::Sum);
  const auto second = all_gather(at::ones({kLarge}), mesh, 0, 0);
  // Both calls have begun on all ranks, so that the first is the one that fails.
  meet_in_store(*store, "begun", rank, 3);
  TORCH_CHECK_VALUE(rank != 1, "rank 1 has had enough");
  first.wait();
}

/// Ranks that make different calls. Every scenario has a world of its own, because a group cannot be used after the
/// failure that the scenario tests; the timeouts run at the same time.
class Scenarios {
 public:
  using Faulty = std::function<void(const DeviceMesh&, bool first)>;

  void add(const std::string& name, Faulty faulty) {
    meet_in_store(*store_, name, rank_, 2);
    const auto own = c10::make_intrusive<c10d::PrefixStore>("world of " + name, store_);
    const DeviceMesh mesh(make_c10d_world(own, rank_, 2, default_timeout()), c10::kCPU, {2}, {"tp"});
    barrier(mesh, 0);
    all_.push_back({name, mesh, std::move(faulty)});
  }

  void run() {
    std::vector<std::thread> threads;
    for (const auto& scenario : all_) {
      threads.emplace_back([this, &scenario] {
        say_error_of([&] { scenario.faulty(scenario.mesh, rank_ == 0); }, scenario.name + ": ");
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
    // The first rank serves the store: no rank leaves before all are done.
    meet_in_store(*store_, "end", rank_, 2);
  }

 private:
  struct Scenario {
    std::string name;
    DeviceMesh mesh;
    Faulty faulty;
  };

  c10::intrusive_ptr<c10d::Store> store_ = launch_store();
  int64_t rank_ = read_launch_environment()->rank;
  std::vector<Scenario> all_;
};

RANK_ROLE(disagrees) {
  Scenarios scenarios;
  const auto ones = at::ones({4});
  scenarios.add("collective", [&](const DeviceMesh& mesh, bool first) {
    (first ? all_gather(ones, mesh, 0, 0) : all_reduce(ones, mesh, 0, ReduceOp::Sum)).wait();
  });
  scenarios.add("op", [&](const DeviceMesh& mesh, bool first) {
    all_reduce(ones, mesh, 0, first ? ReduceOp::Sum : ReduceOp::Max).wait();
  });
  scenarios.add("dtype", [&](const DeviceMesh& mesh, bool first) {
    all_gather(first ? ones : ones.to(at::kInt), mesh, 0, 0).wait();
  });
  scenarios.add(
      "size", [&](const DeviceMesh& mesh, bool first) { all_gather(at::ones({first ? 4 : 5}), mesh, 0, 0).wait(); });
  scenarios.add("order", [&](const DeviceMesh& mesh, bool first) {
    const auto gather = [&] { return all_gather(ones, mesh, 0, 0); };
    const auto reduce = [&] { return all_reduce(ones, mesh, 0, ReduceOp::Sum); };
    const auto one = first ? gather() : reduce();
    const auto two = first ? reduce() : gather();
    one.wait();
  });
  scenarios.add("number of calls", [&](const DeviceMesh& mesh, bool first) {
    if (first) {
      all_reduce(ones, mesh, 0, ReduceOp::Sum).wait();
    } else {
      const auto extra = all_to_all(at::ones({2, 2}), mesh, 0, 0, 1);
      all_reduce(ones, mesh, 0, ReduceOp::Sum).wait();
    }
  });
  scenarios.add("root", [&](const DeviceMesh& mesh, bool first) { broadcast(ones, mesh, 0, first ? 1 : 0).wait(); });
  scenarios.add("message", [&](const DeviceMesh& mesh, bool first) {
    first ? recv(ones, mesh, 0, 1).wait() : recv(ones.to(at::kDouble), mesh, 0, 0).wait();
  });
  scenarios.add("subject", [&](const DeviceMesh& mesh, bool first) {
    const SubjectScope scope(make_subject(first ? 1 : 2, 0xa5));
    all_gather(ones, mesh, 0, 0).wait();
  });
  scenarios.run();
}

} // namespace

void check_killed_rank(const Environment& environment) {
  const auto ranks = run_process_ranks(
      "killed_inside_all_reduce", 3, {.signals = {{1, "inside", 1, SIGKILL}}, .environment = environment});
  EXPECT_EQ(ranks[1].signal, SIGKILL) << describe(ranks);
  expect_all_reduce_failed(ranks, 0);
  expect_all_reduce_failed(ranks, 2);
}

void check_stopped_rank(const Environment& environment) {
  const auto ranks = run_process_ranks(
      "stopped_inside_all_reduce", 3,
      {.timeout = std::chrono::seconds(3),
       .signals = {{1, "inside", 1, SIGSTOP}, {2, "survived", 0, SIGCONT}, {0, "survived", 1, SIGCONT}},
       .environment = environment});
  expect_all_reduce_failed(ranks, 0);
  expect_all_reduce_failed(ranks, 2);
  expect_ended_well(ranks, 1);
}

void check_rank_that_leaves(const Environment& environment) {
  const auto ranks = run_process_ranks("leaves_early", 3, {.environment = environment});
  expect_all_reduce_failed(ranks, 0);
  expect_all_reduce_failed(ranks, 2);
  expect_ended_well(ranks, 1);
}

void check_rank_that_throws(const Environment& environment) {
  const auto ranks = run_process_ranks("throws_among_transfers", 3, {.environment = environment});
  expect_contains(ranks[1].output, "error: rank 1 has had enough");
  for (const size_t rank : {0, 2}) {
    expect_contains(
        ranks[rank].output, "error: [all_reduce(sum) f32[7000000]] call 1 of group dp (ranks 0,1,2) failed");
  }
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank.exit_code, 1) << describe(ranks);
  }
}

void check_different_calls(const Environment& environment) {
  // The ranks make nine worlds within this timeout each, also on a machine that is busy, and then wait until it is over.
  const auto ranks =
      run_process_ranks("disagrees", 2, {.timeout = std::chrono::seconds(15), .environment = environment});
  const std::vector<std::array<std::string, 3>> expected = {
      {"collective", "all_gather f32[4]", "all_reduce(sum) f32[4]"},
      {"op", "all_reduce(sum) f32[4]", "all_reduce(max) f32[4]"},
      {"dtype", "all_gather f32[4]", "all_gather i32[4]"},
      {"size", "all_gather f32[4]", "all_gather f32[5]"},
      {"order", "all_gather f32[4]", "all_reduce(sum) f32[4]"},
      {"number of calls", "all_reduce(sum) f32[4]", "all_reduce(sum) f32[4]"},
      {"root", "broadcast(root 1) f32[4]", "broadcast(root 0) f32[4]"},
      {"message", "recv(from member 1) f32[4]", "recv(from member 0) f64[4]"},
      {"subject", "all_gather f32[4] of unit 1 (lengths 00a5)", "all_gather f32[4] of unit 2 (lengths 00a5)"},
  };
  for (size_t rank = 0; rank < 2; ++rank) {
    expect_ended_well(ranks, rank);
    for (const auto& scenario : expected) {
      const auto said = caught_by(ranks, rank, scenario[0] + ": ");
      expect_contains(said, "[" + scenario[1 + rank] + "] call ");
      expect_contains(said, " of group tp (ranks 0,1) failed on rank " + std::to_string(rank));
    }
  }
}

} // namespace weft::testing
