#include "tests/support/fault_roles.h"
#include "tests/support/launch_store.h"
#include "weft/comm/collectives.h"
#include "weft/tensor/dispatch.h"
#include "weft/tensor/distribute.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <csignal>
#include <future>
#include <iostream>
#include <random>
#include <thread>

#include <unistd.h>

namespace weft {

namespace training_faults_test {

using testing::Outcome;
using testing::run_process_ranks;
using testing::say;
using testing::say_error_of;

/// One of three ranks that train together gets a fault at a random moment: the others must end with an error that names the
/// group and its ranks, before the deadline and by no signal.
///
///   WEFT_FAULT_RUNS   runs of each kind (1)
///   WEFT_FAULT_JOBS   runs at the same time (1)
///   WEFT_FAULT_SEED   of the first run, the others count on; printed, and at random where none is given
constexpr int64_t kRanks = 3;
constexpr auto kTimeout = std::chrono::seconds(6);
constexpr auto kDeadline = std::chrono::seconds(180);

int64_t integer_of(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoll(text);
}

/// What a seed says about a run.
struct Fault {
  int64_t rank;
  int64_t step;
  std::chrono::microseconds delay; // after the begin of the step
  int64_t variant;                 // of the kind

  explicit Fault(uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t limit) { return static_cast<int64_t>(random() % limit); };
    rank = below(kRanks);
    step = below(30);
    delay = std::chrono::microseconds(below(5000));
    variant = below(4);
  }
};

/// A perceptron whose layers are divided over the ranks, and a second mesh for the numbers that are logged.
class Training {
 public:
  Training()
      : world_(testing::make_prompt_world()),
        mesh_(world_, c10::kCPU, {kRanks}, {"tp"}),
        log_mesh_(world_, c10::kCPU, {kRanks}, {"log"}),
        up_(distribute_tensor(at::ones({48, 16}), mesh_, {Shard(0)}).set_requires_grad(true)),
        down_(distribute_tensor(at::ones({4, 48}), mesh_, {Shard(1)}).set_requires_grad(true)) {}

  int64_t rank() const {
    return world_->rank();
  }
  const DeviceMesh& mesh() const {
    return mesh_;
  }

  void step(int64_t number) {
    const auto x = distribute_tensor(at::full({8, 16}, 0.01 * static_cast<double>(number % 7)), mesh_, {Replicate()});
    const auto loss = at::linear(at::relu(at::linear(x, up_)), down_).square().mean();
    loss.backward();
    for (auto* parameter : {&up_, &down_}) {
      const at::NoGradGuard no_grad;
      parameter->sub_(parameter->grad(), 0.01);
      parameter->mutable_grad() = at::Tensor();
    }
    all_reduce(at::ones({300'000}), log_mesh_, 0, ReduceOp::Max).wait();
  }

 private:
  c10::intrusive_ptr<Communicator> world_;
  DeviceMesh mesh_;
  DeviceMesh log_mesh_;
  at::Tensor up_;
  at::Tensor down_;
};

/// Trains until there is an error. At the fault's step, its rank first calls `strike`.
void train_until_error(const std::function<void(const Fault& fault, Training& training)>& strike) {
  const Fault fault(integer_of("WEFT_FAULT_SEED", 0));
  Training training;
  say_error_of([&] {
    for (int64_t step = 0;; ++step) {
      if (step == fault.step && training.rank() == fault.rank) {
        strike(fault, training);
      }
      training.step(step);
    }
  });
  say("done");
}

/// A signal to this process, at a moment that no call knows of.
void strike_later(const Fault& fault, int signal) {
  std::thread([delay = fault.delay, signal] {
    std::this_thread::sleep_for(delay);
    kill(getpid(), signal);
  }).detach();
}

RANK_ROLE(is_killed) {
  train_until_error([](const Fault& fault, Training&) { strike_later(fault, SIGKILL); });
}

RANK_ROLE(is_stopped) {
  train_until_error([](const Fault& fault, Training&) { strike_later(fault, SIGSTOP); });
}

RANK_ROLE(throws) {
  train_until_error([](const Fault&, Training&) { throw std::runtime_error("no more data"); });
}

RANK_ROLE(makes_another_call) {
  train_until_error([](const Fault& fault, Training& training) {
    const auto& mesh = training.mesh();
    switch (fault.variant) {
      case 0: // one that the others do not make
        all_gather(at::ones({5}), mesh, 0, 0).wait();
        break;
      case 1: // the next one of the step, with another shape
        all_reduce(at::ones({7, 3}), mesh, 0, ReduceOp::Sum).wait();
        break;
      case 2: // with another dtype
        all_reduce(at::ones({8, 4}, at::kDouble), mesh, 0, ReduceOp::Sum).wait();
        break;
      default: // to one rank alone
        recv(at::ones({4}), mesh, 0, (training.rank() + 1) % kRanks).wait();
    }
  });
}

struct Kind {
  std::string role;
  bool strikes_all; // the rank with the fault must end with such an error as well
  bool must_be_ended;
};

/// What is wrong about a run; empty if nothing is.
std::string complaints_about(const Kind& kind, const Fault& fault, const std::vector<Outcome>& ranks) {
  std::string complaints;
  bool is_named = false;
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    const auto& outcome = ranks[rank];
    if (rank == fault.rank && !kind.strikes_all) {
      continue;
    }
    const auto has = [&](const std::string& text) { return outcome.output.find(text) != std::string::npos; };
    if (outcome.exit_code != 0 || !outcome.has_line("done")) {
      complaints += c10::str("rank ", rank, " has not ended by itself. ");
    }
    if (!has("caught: [") || !has("(ranks 0,1,2)") || !has(c10::str(" on rank ", rank, ": "))) {
      complaints += c10::str("rank ", rank, " does not say which call of which group has failed. ");
    }
    is_named |= has(c10::str("from rank ", fault.rank)) || has(c10::str("to rank ", fault.rank));
  }
  if (!is_named && !kind.strikes_all) {
    complaints += c10::str("no rank names rank ", fault.rank, ". ");
  }
  return complaints;
}

std::string run(const Kind& kind, uint64_t seed) {
  const Fault fault(seed);
  testing::ProcessOptions options{
      .timeout = kTimeout, .deadline = kDeadline, .environment = {{"WEFT_FAULT_SEED", std::to_string(seed)}}};
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    if (kind.must_be_ended && rank != fault.rank) {
      options.signals.push_back({static_cast<size_t>(rank), "done", static_cast<size_t>(fault.rank), SIGKILL});
    }
  }
  const auto ranks = run_process_ranks(kind.role, kRanks, options);
  const auto complaints = complaints_about(kind, fault, ranks);
  return complaints.empty()
      ? ""
      : c10::str(
            kind.role, " with seed ", seed, " (rank ", fault.rank, ", step ", fault.step, "): ", complaints, "\n") +
          describe(ranks);
}

void run_often(const Kind& kind) {
  const auto runs = integer_of("WEFT_FAULT_RUNS", 1);
  const auto jobs = integer_of("WEFT_FAULT_JOBS", 1);
  const auto seed = integer_of("WEFT_FAULT_SEED", std::random_device{}() % 1'000'000);
  std::cout << kind.role << ": " << runs << " runs, seeds from " << seed << std::endl;
  std::atomic<int64_t> next = 0;
  std::atomic<int64_t> good = 0;
  std::vector<std::future<void>> workers;
  for (int64_t job = 0; job < jobs; ++job) {
    workers.push_back(std::async(std::launch::async, [&] {
      for (int64_t i = next++; i < runs; i = next++) {
        const auto complaint = run(kind, seed + i);
        EXPECT_EQ(complaint, "");
        good += complaint.empty() ? 1 : 0;
      }
    }));
  }
  for (auto& worker : workers) {
    worker.get();
  }
  std::cout << kind.role << ": " << good << " of " << runs << " runs ended as they must" << std::endl;
}

TEST(TrainingFaults, ARankThatIsKilled) {
  run_often({.role = "is_killed", .strikes_all = false, .must_be_ended = false});
}

TEST(TrainingFaults, ARankThatIsStopped) {
  run_often({.role = "is_stopped", .strikes_all = false, .must_be_ended = true});
}

TEST(TrainingFaults, ARankThatThrows) {
  run_often({.role = "throws", .strikes_all = false, .must_be_ended = false});
}

TEST(TrainingFaults, ARankThatMakesAnotherCall) {
  run_often({.role = "makes_another_call", .strikes_all = true, .must_be_ended = false});
}

} // namespace training_faults_test

} // namespace weft
