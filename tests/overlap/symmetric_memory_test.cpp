#include "weft/overlap/symmetric_memory.h"

#include "tests/support/launch_store.h"
#include "tests/support/process_ranks.h"
#include "weft/comm/communicator.h"
#include "weft/comm/world/launch_environment.h"
#include "weft/core/shard_math.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace symmetric_memory_test {
using testing::run_process_ranks;
using testing::say;

std::unique_ptr<SymmetricMemory> make_memory(c10::Device device) {
  const auto environment = read_launch_environment().value();
  const auto store = testing::launch_store();
  auto memory = SymmetricMemory::make(store, environment.rank, environment.world_size, device, default_timeout());
  // Rank 0 serves the store, and may exit only when no rank needs it any more.
  testing::meet_in_store(*store, "made", environment.rank, environment.world_size);
  return memory;
}

RANK_ROLE(asks_for_memory_on_cpu) {
  say(make_memory(c10::kCPU) == nullptr ? "none" : "some");
}

TEST(SymmetricMemory, IsNotThereForDevicesWithoutAnAllocatorAndAllRanksKnow) {
  for (const auto& rank : run_process_ranks("asks_for_memory_on_cpu", 2)) {
    EXPECT_TRUE(rank.has_line("none")) << rank.output;
  }
}

#ifdef WEFT_TEST_CUDA

const std::map<std::string, std::string> kShared = {{"TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES", "1"}};
at::Tensor global_of(int64_t member, c10::IntArrayRef sizes) {
  return at::arange(c10::multiply_integers(sizes), at::kCUDA).view(sizes).to(at::kFloat) + 1000 * member;
}

RANK_ROLE(gathers_and_scatters_on_one_device) {
  const auto rank = read_launch_environment().value().rank;
  const auto memory = make_memory(c10::Device(c10::kCUDA, 0));
  TORCH_CHECK(memory != nullptr, "no symmetric memory");
  const std::vector<std::vector<int64_t>> shapes = {{8, 6}, {7, 3}, {1, 4}, {3, 5, 9}, {900, 2000}};
  for (const auto& sizes : shapes) {
    for (int64_t dim = 0; dim < static_cast<int64_t>(sizes.size()); ++dim) {
      for (const int64_t chunks : {1, 3}) {
        const ChunkedDim chunked = {.dim = dim, .size = sizes[dim], .chunks = chunks};
        const auto run = chunk(chunked.size, 2, rank);
        const auto shard_of = [&](const at::Tensor& global) { return global.narrow(dim, run.begin, run.length); };
        const auto expected = global_of(7, sizes);
        const auto gathered = at::full_like(expected, -1);
        const auto consumed = at::full_like(expected, -1);
        memory->gather(
            shard_of(expected).contiguous(), chunked, gathered, [&](const Chunk& at, const at::Tensor& values) {
              consumed.narrow(dim, at.begin, at.length).copy_(values);
            });
        TORCH_CHECK(at::equal(gathered, expected), "gathered along ", dim, " of ", sizes);
        TORCH_CHECK(at::equal(consumed, expected), "consumed along ", dim, " of ", sizes);

        const auto mine = global_of(rank, sizes);
        const auto sum = shard_of(global_of(0, sizes) + global_of(1, sizes));
        const auto output = at::full_like(sum, -1);
        memory->scatter(output, chunked, [&](const Chunk& at, const at::Tensor& target, bool adds) {
          TORCH_CHECK(!adds, "nothing is there to add to");
          target.copy_(mine.narrow(dim, at.begin, at.length));
        });
        TORCH_CHECK(at::equal(output, sum), "scattered along ", dim, " of ", sizes);
      }
    }
  }
  say("done");
}

TEST(SymmetricMemory, GathersAndScattersBetweenTwoProcessesOnOneDevice) {
  for (const auto& rank : run_process_ranks("gathers_and_scatters_on_one_device", 2, {.environment = kShared})) {
    EXPECT_TRUE(rank.has_line("done")) << rank.output;
  }
}

RANK_ROLE(asks_for_memory_on_one_device) {
  say(make_memory(c10::Device(c10::kCUDA, 0)) == nullptr ? "none" : "some");
}

TEST(SymmetricMemory, IsNotSharedOnOneDeviceUnlessAllowed) {
  for (const auto& rank : run_process_ranks("asks_for_memory_on_one_device", 2)) {
    EXPECT_TRUE(rank.has_line("none")) << rank.output;
  }
}

RANK_ROLE(dies_before_it_signals) {
  const auto rank = read_launch_environment().value().rank;
  const auto memory = make_memory(c10::Device(c10::kCUDA, 0));
  if (rank == 1) {
    say("gone");
    std::_Exit(3);
  }
  const auto shard = at::ones({4, 6}, at::kCUDA);
  const auto global = at::empty({8, 6}, at::kCUDA);
  memory->gather(shard, {.dim = 0, .size = 8, .chunks = 1}, global, [](const Chunk&, const at::Tensor&) {});
  say("sum ", global.sum().item<float>());
}

TEST(SymmetricMemory, AMemberThatDiesIsAnErrorWithinTheTimeout) {
  const auto ranks =
      run_process_ranks("dies_before_it_signals", 2, {.timeout = std::chrono::seconds(3), .environment = kShared});
  EXPECT_NE(ranks[0].output.find("error: "), std::string::npos) << ranks[0].output;
}

#endif

} // namespace symmetric_memory_test

} // namespace weft
