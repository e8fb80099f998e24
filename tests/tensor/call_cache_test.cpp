#include "weft/tensor/call_cache.h"

#include <gtest/gtest.h>

#include <thread>

namespace weft {
namespace {

CachedCall call_with(int64_t shape_argument) {
  CachedCall call;
  call.shape_argument = shape_argument;
  return call;
}

TEST(CallCache, FindsWhatWasAdded) {
  CallCache cache;
  EXPECT_EQ(cache.find({1, 2, 3}), nullptr);
  cache.add({1, 2, 3}, call_with(5));
  const auto* found = cache.find({1, 2, 3});
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->shape_argument, 5);
}

TEST(CallCache, AKeyThatDiffersInAWordOrInLengthIsAnother) {
  CallCache cache;
  cache.add({1, 2, 3}, call_with(0));
  EXPECT_EQ(cache.find({1, 2, 4}), nullptr);
  EXPECT_EQ(cache.find({1, 2}), nullptr);
  EXPECT_EQ(cache.find({1, 2, 3, 0}), nullptr);
  EXPECT_EQ(cache.find({3, 2, 1}), nullptr);
}

TEST(CallCache, CountsHitsAndMisses) {
  CallCache cache;
  cache.find({1});
  cache.add({1}, {});
  cache.find({1});
  cache.find({1});
  const auto counters = cache.counters();
  EXPECT_EQ(counters.size, 1U);
  EXPECT_EQ(counters.hits, 2U);
  EXPECT_EQ(counters.misses, 1U);
}

TEST(CallCache, AddingAgainReplaces) {
  CallCache cache;
  cache.add({1}, call_with(1));
  EXPECT_EQ(cache.add({1}, call_with(2)).shape_argument, 2);
  EXPECT_EQ(cache.find({1})->shape_argument, 2);
  EXPECT_EQ(cache.counters().size, 1U);
}

TEST(CallCache, StaysBoundedAndKeepsTheLatest) {
  CallCache cache;
  constexpr uint64_t kCalls = 50000;
  size_t largest = 0;
  for (uint64_t i = 0; i < kCalls; ++i) {
    cache.add({i}, call_with(static_cast<int64_t>(i)));
    largest = std::max(largest, cache.counters().size);
  }
  EXPECT_LE(largest, 16384U);
  EXPECT_GE(largest, 1024U);
  ASSERT_NE(cache.find({kCalls - 1}), nullptr);
  EXPECT_EQ(cache.find({kCalls - 1})->shape_argument, static_cast<int64_t>(kCalls - 1));
}

TEST(CallCache, IsEmptyOnceCleared) {
  CallCache cache;
  cache.add({1}, {});
  cache.clear();
  EXPECT_EQ(cache.counters().size, 0U);
  EXPECT_EQ(cache.find({1}), nullptr);
}

TEST(CallCache, LetsGoOfItsSpecsWhenCleared) {
  CallCache cache;
  const auto spec = TensorSpec::parse("f32[12347] @ mesh(a=2) {S(0)}");
  CachedCall call;
  call.operands = {spec};
  cache.add({1}, std::move(call));
  EXPECT_EQ(spec.use_count(), 2U);
  cache.clear();
  EXPECT_EQ(spec.use_count(), 1U);
}

TEST(CallCache, EveryThreadHasItsOwn) {
  const auto* mine = &CallCache::of_thread();
  EXPECT_EQ(mine, &CallCache::of_thread());
  const CallCache* other = nullptr;
  std::thread([&] { other = &CallCache::of_thread(); }).join();
  EXPECT_NE(mine, other);
}

} // namespace
} // namespace weft
