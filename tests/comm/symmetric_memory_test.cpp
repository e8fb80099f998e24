#include "weft/comm/symmetric_memory.h"

#include "tests/support/launch_store.h"
#include "tests/support/process_ranks.h"
#include "weft/comm/communicator.h"
#include "weft/comm/launch_environment.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {
namespace {

using testing::run_process_ranks;
using testing::say;

std::unique_ptr<SymmetricMemory> make_memory(c10::Device device) {
  const auto environment = read_launch_environment().value();
  return SymmetricMemory::make(
      testing::launch_store(), environment.rank, environment.world_size, device, default_timeout());
}

} // namespace

RANK_ROLE(asks_for_memory_on_cpu) {
  say(make_memory(c10::kCPU) == nullptr ? "none" : "some");
}

TEST(SymmetricMemory, IsNotThereForDevicesWithoutAnAllocatorAndAllRanksKnow) {
  for (const auto& rank : run_process_ranks("asks_for_memory_on_cpu", 2)) {
    EXPECT_TRUE(rank.has_line("none")) << rank.output;
  }
}

#ifdef WEFT_TEST_CUDA

namespace {

const std::map<std::string, std::string> kShared = {{"TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES", "1"}};
const std::vector<std::vector<int64_t>> kLengths = {{4, 4}, {5, 3}, {1, 0}, {64, 64}};

at::Tensor whole_of(int64_t member, int64_t rows) {
  return at::arange(rows * 6, at::kCUDA).view({rows, 2, 3}).to(at::kFloat) + 1000 * member;
}

int64_t total(c10::IntArrayRef lengths) {
  return lengths[0] + lengths[1];
}

at::Tensor piece_of(const at::Tensor& whole, c10::IntArrayRef lengths, int64_t member) {
  return whole.narrow(0, member == 0 ? 0 : lengths[0], lengths[member]);
}

} // namespace

RANK_ROLE(gathers_and_scatters_on_one_device) {
  const auto rank = read_launch_environment().value().rank;
  const auto memory = make_memory(c10::Device(c10::kCUDA, 0));
  TORCH_CHECK(memory != nullptr, "no symmetric memory");
  for (const auto& lengths : kLengths) {
    for (const int64_t chunks : {1, 3}) {
      const auto rows = total(lengths);
      const auto expected = whole_of(7, rows);
      const auto whole = at::full_like(expected, -1);
      const auto consumed = at::full_like(expected, -1);
      memory->gather(
          piece_of(expected, lengths, rank).contiguous(), lengths, chunks, whole, /*keeps_own=*/true,
          [&](int64_t start, const at::Tensor& part) { consumed.narrow(0, start, part.size(0)).copy_(part); });
      TORCH_CHECK(at::equal(whole, expected), "gathered ", whole, " and not ", expected);
      TORCH_CHECK(at::equal(consumed, expected), "consumed ", consumed, " and not ", expected);

      const auto mine = whole_of(rank, rows);
      for (const bool averages : {false, true}) {
        const auto piece = memory->scatter(
            lengths, {2, 3}, chunks, mine.options(), averages,
            [&](int64_t start, const at::Tensor& part) { part.copy_(mine.narrow(0, start, part.size(0))); });
        const auto sum = piece_of(whole_of(0, rows) + whole_of(1, rows), lengths, rank);
        TORCH_CHECK(at::equal(piece, averages ? sum / 2 : sum), "scattered ", piece, " and not ", sum);
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
  const auto whole = at::empty({8, 6}, at::kCUDA);
  memory->gather(shard, {4, 4}, 1, whole, true, [](int64_t, const at::Tensor&) {});
  say("sum ", whole.sum().item<float>());
}

TEST(SymmetricMemory, AMemberThatDiesIsAnErrorWithinTheTimeout) {
  const auto ranks =
      run_process_ranks("dies_before_it_signals", 2, {.timeout = std::chrono::seconds(3), .environment = kShared});
  EXPECT_NE(ranks[0].output.find("error: "), std::string::npos) << ranks[0].output;
}

#endif

} // namespace weft
