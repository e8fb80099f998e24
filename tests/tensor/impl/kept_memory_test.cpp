#include "weft/tensor/impl/kept_memory.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace weft {

namespace kept_memory_test {

using Memory = KeptMemory<40>;

struct GivesBack {
  void operator()(void* memory) const {
    Memory::give_back(memory);
  }
};
using Owner = std::unique_ptr<void, GivesBack>;

TEST(KeptMemory, GivesWhatTheThreadGaveBackLast) {
  auto* const a = Memory::take();
  auto* const b = Memory::take();
  EXPECT_NE(a, b);
  Memory::give_back(a);
  Memory::give_back(b);
  if (C10_ASAN_ENABLED) {
    return; // the sanitizer is to see each use of what was given back, so that nothing is kept
  }
  EXPECT_EQ(Memory::take(), b);
  EXPECT_EQ(Memory::take(), a);
  Memory::give_back(b);
  Memory::give_back(a);
}

TEST(KeptMemory, IsNotGivenTwiceHoweverMuchIsGivenBack) {
  for (int round = 0; round < 3; ++round) {
    std::vector<Owner> owners;
    std::set<void*> distinct;
    for (int i = 0; i < 1000; ++i) {
      owners.emplace_back(Memory::take());
      distinct.insert(owners.back().get());
    }
    EXPECT_EQ(distinct.size(), owners.size());
  }
}

TEST(KeptMemory, MayBeGivenBackOnAnotherThread) {
  for (int round = 0; round < 100; ++round) {
    Owner taken(Memory::take());
    std::thread([&] {
      taken.reset();
      taken.reset(Memory::take());
    }).join();
  }
}

TEST(KeptMemory, MayBeGivenBackWhileTheThreadEnds) {
  std::thread([] {
    thread_local Owner ends_last; // constructed before the thread keeps anything
    ends_last.reset(Memory::take());
    Memory::give_back(Memory::take());
  }).join();
}

} // namespace kept_memory_test

} // namespace weft
