#include "bench/decoder.h"
#include "bench/serve.h"

#include "weft/graph/replay/captured_step.h"
#include "weft/nn/distribute_module.h"
#include "weft/nn/fully_shard.h"
#include "weft/nn/parallelize_module.h"
#include "weft/weft.h"

#include <torch/utils.h>

#include <malloc.h>

#include <condition_variable>
#include <cstdlib>
#include <iostream>
#include <mutex>

namespace {

using namespace weft;
using bench::Cases;
using bench::TimedCall;

constexpr const char* kUsage =
    "decoder_main: the benchmarks 'training', 'fully_sharded' and 'compile' in C++, started by bench/run.py: one rank "
    "over gloo where\n"
    "RANK and so on say so, else two ranks as threads. Reads '<calls> <dim> <case>' from stdin, where the case is the "
    "path of a plan\n"
    "file, 'replay <path>' for a step that is recorded and replayed, 'fully_sharded' or 'dp', and prints the "
    "microseconds of each step.\n";

constexpr int64_t kVocabulary = 1024;
/// Of 'training', which is of tensor parallelism.
constexpr int64_t kBlocks = 4, kHeads = 8, kBatch = 2, kLength = 64;
/// As in bench/peers/fully_sharded_rank.py.
constexpr int64_t kShardedBlocks = 8, kHeadDim = 64, kShardedLength = 256;

struct ModelAndTokens {
  nn::Parallel<bench::Decoder> model;
  at::Tensor tokens;
};

/// Parameters and tokens are the same on every rank.
ModelAndTokens seeded(int64_t dim, int64_t blocks, int64_t heads, at::IntArrayRef tokens) {
  static std::mutex one_at_a_time; // ranks that are threads share the generator
  const std::lock_guard lock(one_at_a_time);
  torch::manual_seed(0);
  return {nn::Parallel<bench::Decoder>(kVocabulary, dim, blocks, heads), torch::randint(kVocabulary, tokens)};
}

/// A sequence for each rank: its own with fully sharded parameters, and rows of a distributed batch with replicated ones.
TimedCall make_data_parallel_step(const DeviceMesh& mesh, const std::string& mode, int64_t dim) {
  auto [model, tokens] =
      seeded(dim, kShardedBlocks, std::max<int64_t>(dim / kHeadDim, 1), {mesh.size(), kShardedLength + 1});
  const bool is_sharded = mode == "fully_sharded";
  if (is_sharded) {
    for (const auto& block : *model->blocks) {
      nn::fully_shard(*block, mesh);
    }
    nn::fully_shard(*model, mesh);
  } else {
    nn::distribute_module(*model, mesh);
  }
  const auto batch = [&, tokens = tokens](int64_t begin) {
    const auto all = tokens.slice(1, begin, begin + kShardedLength).contiguous();
    return is_sharded ? all.narrow(0, mesh.rank(0), 1) : distribute_tensor(all, mesh, {Shard(0)});
  };
  const auto training = std::make_shared<bench::Training>(model);
  return [=, inputs = batch(0), targets = batch(1)] { return torch::tensor(training->step(inputs, targets)); };
}

/// The case is the path of a plan, behind "replay " for a step that is recorded and replayed, or that of a data-parallel step.
TimedCall make_step(const DeviceMesh& mesh, const std::string& step_case, int64_t dim) {
  if (step_case == "fully_sharded" || step_case == "dp") {
    return make_data_parallel_step(mesh, step_case, dim);
  }
  constexpr std::string_view kReplay = "replay ";
  const bool is_replayed = step_case.starts_with(kReplay);
  const auto plan = step_case.substr(is_replayed ? kReplay.size() : 0);
  auto [model, tokens] = seeded(dim, kBlocks, kHeads, {kBatch, kLength + 1});
  nn::parallelize_module(*model, mesh, nn::ParallelPlan::load(plan));
  const auto distributed = [&](const at::Tensor& global) {
    return distribute_tensor(global.contiguous(), mesh, {Replicate()});
  };
  const auto training = std::make_shared<bench::Training>(model);
  const auto inputs = distributed(tokens.slice(1, 0, kLength));
  const auto targets = distributed(tokens.slice(1, 1, kLength + 1));
  if (is_replayed) {
    const auto step = std::make_shared<graph::CapturedStep>(
        [=](const std::vector<at::Tensor>& in) { return std::vector{training->take_step(in[0], in[1])}; });
    return [=] { return torch::tensor(step->run({inputs, targets})[0].item<float>()); };
  }
  return [=] { return torch::tensor(training->step(inputs, targets)); };
}

/// What the first rank, which is asked, tells the others to do as well.
class Orders {
 public:
  void give(std::string plan, int64_t dim) {
    {
      const std::lock_guard lock(mutex_);
      order_ = {std::move(plan), dim};
      ++count_;
    }
    given_.notify_all();
  }
  std::pair<std::string, int64_t> next(int64_t after) {
    std::unique_lock lock(mutex_);
    given_.wait(lock, [&] { return count_ > after; });
    return order_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable given_;
  std::pair<std::string, int64_t> order_;
  int64_t count_ = 0;
};

/// Makes a step where there is none yet, and takes it.
class Steps {
 public:
  explicit Steps(DeviceMesh mesh) : mesh_(std::move(mesh)) {}

  at::Tensor take(const std::string& plan, int64_t dim) {
    auto& step = made_[{plan, dim}];
    if (!step) {
      step = make_step(mesh_, plan, dim);
    }
    return step();
  }

 private:
  DeviceMesh mesh_;
  std::map<std::pair<std::string, int64_t>, TimedCall> made_;
};

void take_orders(Orders& orders, const DeviceMesh& mesh) {
  Steps steps(mesh);
  for (int64_t taken = 0;; ++taken) {
    const auto [plan, dim] = orders.next(taken);
    if (plan.empty()) {
      return;
    }
    steps.take(plan, dim);
  }
}

/// Ranks as threads: the first one serves.
int serve_threads(int argc, char** argv) {
  int status = 0;
  Orders orders;
  run_on_ranks(2, [&](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {2});
    if (rank != 0) {
      return take_orders(orders, mesh);
    }
    status = bench::serve(argc, argv, kUsage, [&] {
      const auto steps = std::make_shared<Steps>(mesh);
      return Cases{
          .make = [=, &orders](const std::string& plan, int64_t dim) -> TimedCall {
            return [=, &orders] {
              orders.give(plan, dim);
              return steps->take(plan, dim);
            };
          },
          .barrier = [] {}};
    });
    orders.give("", 0);
  });
  return status;
}

} // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  // As an allocator for training would, keep what is freed for the next step instead of giving it back to the kernel.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  if (const char* size = std::getenv("WORLD_SIZE"); size == nullptr || std::string(size) == "1") {
    return serve_threads(argc, argv);
  }
  return bench::serve(argc, argv, kUsage, [] {
    const auto mesh = init_device_mesh("cpu", {current_world()->size()});
    return Cases{
        .make = [=](const std::string& plan, int64_t dim) { return make_step(mesh, plan, dim); },
        .barrier = [=] { barrier(mesh, {0}); }};
  });
}
