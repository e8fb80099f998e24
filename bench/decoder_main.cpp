#include "bench/decoder.h"
#include "bench/serve.h"

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
    "decoder_main: the benchmark 'training' in C++, started by bench/run.py: one rank over gloo where RANK and so on "
    "say so,\n"
    "else two ranks as threads. Reads '<calls> <dim> <case>' from stdin, where the case is the path of a plan file, "
    "and\n"
    "prints the microseconds of each step.\n";

constexpr int64_t kVocabulary = 1024, kBlocks = 4, kHeads = 8, kBatch = 2, kLength = 64;

/// Parameters and tokens are the same on every rank.
TimedCall make_step(const DeviceMesh& mesh, const std::string& plan, int64_t dim) {
  static std::mutex one_at_a_time; // ranks that are threads share the generator
  bench::Decoder model(nullptr);
  at::Tensor tokens;
  {
    const std::lock_guard lock(one_at_a_time);
    torch::manual_seed(0);
    model = bench::Decoder(kVocabulary, dim, kBlocks, kHeads);
    tokens = torch::randint(kVocabulary, {kBatch, kLength + 1});
  }
  nn::parallelize_module(*model, mesh, nn::ParallelPlan::load(plan));
  const auto distributed = [&](const at::Tensor& global) {
    return distribute_tensor(global.contiguous(), mesh, {Replicate()});
  };
  const auto training = std::make_shared<bench::Training>(model);
  const auto inputs = distributed(tokens.slice(1, 0, kLength));
  const auto targets = distributed(tokens.slice(1, 1, kLength + 1));
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
