#include "weft/files/share_work.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

#include <pthread.h>

namespace weft {

namespace share_work_test {

/// How often each of 100 items was given to a thread.
std::vector<int> counts_of(size_t threads) {
  std::vector<std::atomic<int>> counts(100);
  share_work(threads, counts.size(), [&](const NextItem& next) {
    while (const auto i = next()) {
      ++counts[*i];
    }
  });
  return {counts.begin(), counts.end()};
}

TEST(ShareWork, GivesEveryItemToOneThread) {
  for (const size_t threads : {0, 1, 4, 1000}) {
    EXPECT_EQ(counts_of(threads), std::vector<int>(100, 1)) << threads;
  }
}

TEST(ShareWork, RaisesTheErrorOfAnyThread) {
  const auto work = [](const NextItem& next) {
    while (const auto i = next()) {
      if (*i == 57) {
        throw std::runtime_error("item 57");
      }
    }
  };
  EXPECT_THROW(share_work(4, 100, work), std::runtime_error);
}

TEST(ShareWork, DoesWithoutThreadsThatTheSystemRefuses) {
  pthread_attr_t former;
  pthread_attr_t impossible;
  ASSERT_EQ(pthread_getattr_default_np(&former), 0);
  ASSERT_EQ(pthread_getattr_default_np(&impossible), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&impossible, size_t{1} << 50), 0); // more than there are addresses
  ASSERT_EQ(pthread_setattr_default_np(&impossible), 0);
  const auto counts = counts_of(4);
  ASSERT_EQ(pthread_setattr_default_np(&former), 0);
  EXPECT_EQ(counts, std::vector<int>(100, 1));
}

} // namespace share_work_test

} // namespace weft
