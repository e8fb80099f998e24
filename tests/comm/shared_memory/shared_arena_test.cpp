#include "weft/comm/shared_memory/shared_arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace weft {

namespace shared_arena_test {

/// What a child made by fork finds, as its exit code.
int in_child(int (*look)()) {
  const auto child = fork();
  if (child == 0) {
    _exit(look());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(SharedArena, BlocksAreSeparateAndPageAligned) {
  auto& arena = *SharedArena::own();
  const auto a = arena.take(1);
  const auto b = arena.take(5000);
  EXPECT_EQ(a->offset() % 4096, 0);
  EXPECT_EQ(b->offset() % 4096, 0);
  std::memset(a->data(), 1, 4096);
  std::memset(b->data(), 2, 5000);
  EXPECT_EQ(a->data()[4095], 1);
  EXPECT_EQ(b->data()[0], 2);
}

TEST(SharedArena, ABlockThatWasGivenBackIsTakenAgain) {
  auto& arena = *SharedArena::own();
  const auto offset = arena.take(100'000)->offset();
  EXPECT_EQ(arena.take(70'000)->offset(), offset) << "of the same class of sizes";
}

TEST(SharedArena, AZeroedBlockIsZeroWhateverItHeld) {
  auto& arena = *SharedArena::own();
  std::memset(arena.take(20'000)->data(), 7, 20'000);
  const auto block = arena.take_zeroed(20'000);
  EXPECT_TRUE(std::all_of(block->data(), block->data() + 20'000, [](char byte) { return byte == 0; }));
}

TEST(SharedArena, GivenBackBlocksHoldABoundedAmountOfMemory) {
  auto& arena = *SharedArena::own();
  const auto before = arena.kept_bytes();
  { const auto large = arena.take(2 * SharedArena::kMostKeptBytes); }
  EXPECT_EQ(arena.kept_bytes(), before);
  std::vector<std::shared_ptr<SharedBlock>> many;
  for (int i = 0; i < 8; ++i) {
    many.push_back(arena.take(SharedArena::kMostKeptBytes / 4));
  }
  many.clear();
  EXPECT_LE(arena.kept_bytes(), SharedArena::kMostKeptBytes);
}

TEST(SharedArena, WhatDoesNotFitIsRefused) {
  EXPECT_EQ(SharedArena::own()->take(2 * SharedArena::kMappedBytes), nullptr);
}

TEST(SharedArena, OtherMappingsOfTheDescriptorSeeTheBytes) {
  auto& arena = *SharedArena::own();
  const auto block = arena.take(4096);
  std::strcpy(block->data(), "seen");
  char read[5] = {};
  EXPECT_EQ(pread(arena.descriptor(), read, 5, block->offset()), 5);
  EXPECT_STREQ(read, "seen");
}

TEST(SharedArena, AChildMadeByForkKeepsNothingOfItsParentsAndGetsItsOwn) {
  static SharedArena* const parents = SharedArena::own();
  static const int descriptor = parents->descriptor();
  static const uint64_t nonce = parents->nonce();
  static const auto block = parents->take(4096);
  static char* const data = block->data();
  EXPECT_EQ(in_child([] { return fcntl(descriptor, F_GETFD) < 0 ? 0 : 1; }), 0) << "the descriptor is closed";
  EXPECT_EQ(in_child([] { return msync(data, 4096, MS_ASYNC) < 0 ? 0 : 1; }), 0) << "the memory is not mapped";
  EXPECT_EQ(
      in_child([] {
        auto* const own = SharedArena::own();
        const auto taken = own->take(4096);
        taken->data()[0] = 1;
        return own != parents && own->nonce() != nonce ? 0 : 1;
      }),
      0);
  EXPECT_EQ(SharedArena::own(), parents);
}

TEST(SharedArena, AForkWhileAnotherThreadTakesAndGivesBackLeavesNoLockHeld) {
  std::atomic<bool> is_over = false;
  std::thread other([&] {
    while (!is_over) {
      SharedArena::own()->take(4096);
    }
  });
  for (int i = 0; i < 15; ++i) {
    static std::shared_ptr<SharedBlock> block;
    block = SharedArena::own()->take(4096);
    EXPECT_EQ(
        in_child([] {
          alarm(20); // a lock that is held by a thread of the parent would be waited for forever
          block = nullptr;
          return SharedArena::own()->take(4096) != nullptr ? 0 : 1;
        }),
        0);
  }
  is_over = true;
  other.join();
}

TEST(SharedArena, ThereIsNoneUnderALimitOfFileSizes) {
  EXPECT_EQ(
      in_child([] {
        const rlimit limit{.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
        return setrlimit(RLIMIT_FSIZE, &limit) == 0 && SharedArena::own() == nullptr ? 0 : 1;
      }),
      0);
}

} // namespace shared_arena_test

} // namespace weft
