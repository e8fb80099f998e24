#include "weft/tensor/impl/call_cache.h"

#include <gtest/gtest.h>

#include <thread>

namespace weft {

namespace call_cache_test {
constexpr size_t kMaxCalls = 16384;

CallKey key_of(std::initializer_list<uint64_t> words) {
  CallKey key;
  for (const auto word : words) {
    key.add(word);
  }
  return key;
}

PreparedCall call_with(int64_t bytes) {
  auto explanation = std::make_shared<Explanation>();
  explanation->bytes = bytes;
  PreparedCall call;
  call.explanation = std::move(explanation);
  return call;
}

TEST(CallCache, FindsWhatWasAdded) {
  CallCache cache;
  EXPECT_EQ(cache.find(key_of({1, 2, 3})), nullptr);
  cache.add(key_of({1, 2, 3}), call_with(5));
  const auto* found = cache.find(key_of({1, 2, 3}));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->explanation->bytes, 5);
}

TEST(CallCache, AKeyThatDiffersInAWordOrInLengthIsAnother) {
  CallCache cache;
  cache.add(key_of({1, 2, 3}), {});
  EXPECT_EQ(cache.find(key_of({1, 2, 4})), nullptr);
  EXPECT_EQ(cache.find(key_of({1, 2})), nullptr);
  EXPECT_EQ(cache.find(key_of({1, 2, 3, 0})), nullptr);
  EXPECT_EQ(cache.find(key_of({3, 2, 1})), nullptr);
}

TEST(CallCache, CountsHitsAndMisses) {
  CallCache cache;
  cache.find(key_of({1}));
  cache.add(key_of({1}), {});
  cache.find(key_of({1}));
  cache.find(key_of({1}));
  const auto counters = cache.counters();
  EXPECT_EQ(counters.size, 1U);
  EXPECT_EQ(counters.hits, 2U);
  EXPECT_EQ(counters.misses, 1U);
}

TEST(CallCache, FindsDirectCallsAndCountsThemAlone) {
  CallCache cache;
  PreparedCall direct;
  direct.is_direct = true;
  cache.add(key_of({1}), std::move(direct));
  cache.add(key_of({2}), {});
  EXPECT_NE(cache.find_direct(key_of({1})), nullptr);
  EXPECT_EQ(cache.find_direct(key_of({2})), nullptr);
  EXPECT_EQ(cache.find_direct(key_of({3})), nullptr);
  const auto counters = cache.counters();
  EXPECT_EQ(counters.hits, 1U);
  EXPECT_EQ(counters.direct_hits, 1U);
  EXPECT_EQ(counters.misses, 0U);
}

TEST(CallCache, AddingAgainReplaces) {
  CallCache cache;
  cache.add(key_of({1}), call_with(1));
  EXPECT_EQ(cache.add(key_of({1}), call_with(2)).explanation->bytes, 2);
  EXPECT_EQ(cache.find(key_of({1}))->explanation->bytes, 2);
  EXPECT_EQ(cache.counters().size, 1U);
}

TEST(CallCache, StaysBoundedAndKeepsTheLatest) {
  CallCache cache;
  constexpr uint64_t kCalls = 3 * kMaxCalls + 5;
  for (uint64_t i = 0; i < kCalls; ++i) {
    cache.add(key_of({i}), call_with(static_cast<int64_t>(i)));
    ASSERT_LE(cache.counters().size, kMaxCalls);
  }
  EXPECT_EQ(cache.counters().size, 5U);
  ASSERT_NE(cache.find(key_of({kCalls - 1})), nullptr);
  EXPECT_EQ(cache.find(key_of({kCalls - 1}))->explanation->bytes, static_cast<int64_t>(kCalls - 1));
  EXPECT_EQ(cache.find(key_of({0})), nullptr);
}

TEST(CallCache, ACallThatWasFoundStaysValidWhileOthersFillTheCache) {
  CallCache cache;
  auto& call = cache.add(key_of({0}), call_with(7));
  for (uint64_t i = 1; i <= kMaxCalls; ++i) {
    cache.add(key_of({i}), {});
  }
  EXPECT_EQ(cache.find(key_of({0})), nullptr);
  EXPECT_EQ(call.explanation->bytes, 7);
}

TEST(CallCache, LetsGoOfItsSpecsOnceItWasFullTwice) {
  CallCache cache;
  const auto spec = TensorSpec::parse("f32[12347] @ mesh(a=2) {S(0)}");
  PreparedCall call;
  call.operands = {spec};
  cache.add(key_of({0}), std::move(call));
  EXPECT_EQ(spec.use_count(), 2U);
  for (uint64_t i = 1; i <= 2 * kMaxCalls; ++i) {
    cache.add(key_of({i}), {});
  }
  EXPECT_EQ(spec.use_count(), 1U);
}

TEST(CallCache, EveryThreadHasItsOwn) {
  const auto* mine = &CallCache::of_thread();
  EXPECT_EQ(mine, &CallCache::of_thread());
  const CallCache* other = nullptr;
  std::thread([&] { other = &CallCache::of_thread(); }).join();
  EXPECT_NE(mine, other);
}

} // namespace call_cache_test

} // namespace weft
