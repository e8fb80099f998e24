#include "weft/comm/world/freed_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <cstdlib>
#include <cstring>

namespace weft {

namespace freed_memory_test {

constexpr size_t kBlocks = 5;
constexpr size_t kBytes = 12 << 20;
constexpr int64_t kPages = kBlocks * kBytes / 4096;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kMost = 2 * kPages; // their allocators do not use freed memory again at once
#else
constexpr int64_t kMost = kPages / 100;
#endif

int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

/// How many pages come from the kernel when some blocks are allocated, written and freed.
int64_t pages_of_a_step() {
  const auto before = page_faults();
  std::array<void*, kBlocks> blocks{};
  for (auto& block : blocks) {
    block = std::malloc(kBytes);
    std::memset(block, 1, kBytes);
  }
  for (auto* block : blocks) {
    std::free(block);
  }
  return page_faults() - before;
}

TEST(FreedMemory, TheNextStepUsesWhatAStepFrees) {
  keep_freed_memory();
  pages_of_a_step();
  pages_of_a_step();
  EXPECT_LT(pages_of_a_step(), kMost);
}

} // namespace freed_memory_test

} // namespace weft
