#include "weft/tensor/random/random_state.h"

#include "weft/comm/world/current_world.h"
#include "weft/comm/world/fake_world.h"
#include "weft/comm/world/run_on_ranks.h"

#include <gtest/gtest.h>

#include <ATen/CPUGeneratorImpl.h>

#include <thread>

namespace weft {

namespace random_state_test {
TEST(RandomState, EveryCallTakesANumber) {
  manual_seed(7);
  EXPECT_EQ(random_state(), (RandomState{7, 0}));
  const auto first = next_random_call();
  const auto second = next_random_call();
  EXPECT_EQ(first.seed, 7U);
  EXPECT_EQ(first.number, 0U);
  EXPECT_EQ(second.seed, 7U);
  EXPECT_EQ(second.number, 1U);
  EXPECT_EQ(random_state(), (RandomState{7, 2}));
}

TEST(RandomState, IsRestored) {
  manual_seed(7);
  next_random_call();
  const auto kept = random_state();
  const auto expected = next_random_call();
  manual_seed(8);
  set_random_state(kept);
  const auto again = next_random_call();
  EXPECT_EQ(again.seed, expected.seed);
  EXPECT_EQ(again.number, expected.number);
}

TEST(RandomState, RanksAsThreadsHaveEachTheirOwnAndBeginAlike) {
  manual_seed(7);
  run_on_ranks(3, [](int64_t rank) {
    EXPECT_EQ(random_state(), RandomState{});
    for (int64_t i = 0; i < rank; ++i) {
      next_random_call();
    }
    EXPECT_EQ(random_state(), (RandomState{kDefaultSeed, static_cast<uint64_t>(rank)}));
  });
  EXPECT_EQ(random_state(), (RandomState{7, 0}));
}

TEST(RandomState, OtherThreadsOfAProcessShareIt) {
  manual_seed(7);
  std::thread([] { next_random_call(); }).join();
  EXPECT_EQ(random_state(), (RandomState{7, 1}));
}

TEST(RandomState, EqualGeneratorsGiveEqualCallsAndMoveOn) {
  manual_seed(7);
  auto a = at::make_generator<at::CPUGeneratorImpl>(3);
  auto b = at::make_generator<at::CPUGeneratorImpl>(3);
  const auto first = next_random_call(a);
  EXPECT_EQ(first.seed, next_random_call(b).seed);
  EXPECT_NE(first.seed, next_random_call(a).seed);
  EXPECT_EQ(random_state(), (RandomState{7, 0})) << "a generator leaves the state alone";
}

TEST(RandomState, SeedsToCompareAreComparedBeforeADraw) {
  run_on_ranks(2, [](int64_t rank) {
    const DeviceMesh mesh(current_world(), c10::kCPU, {2});
    manual_seed_to_compare(5);
    EXPECT_NO_THROW(before_draw(mesh, next_random_call()));
    manual_seed_to_compare(5 + rank);
    EXPECT_NO_THROW(before_draw(mesh, next_random_call(at::make_generator<at::CPUGeneratorImpl>(rank))));
    EXPECT_THROW(before_draw(mesh, next_random_call()), c10::ValueError);
    manual_seed(5);
    EXPECT_NO_THROW(before_draw(mesh, next_random_call()));
  });
}

TEST(RandomState, SeedsOfAWorldWithoutOtherRanksAreNotCompared) {
  manual_seed_to_compare(5);
  EXPECT_NO_THROW(before_draw(DeviceMesh(make_fake_world(4), c10::kCPU, {4}), next_random_call()));
  EXPECT_NO_THROW(before_draw(DeviceMesh::parse("mesh(tp=4)"), next_random_call()));
  manual_seed(5);
}

} // namespace random_state_test

} // namespace weft
