#include "weft/comm/shared_memory/doorbell.h"

#include <algorithm>
#include <climits>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace weft {

namespace {

using SteadyClock = std::chrono::steady_clock;

void relax_core() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

} // namespace

std::chrono::nanoseconds SpinTime::next() {
  if (in_vain_.load(std::memory_order_relaxed) >= kTryEvery) {
    in_vain_ = 0;
    return std::chrono::nanoseconds(kMost / 4);
  }
  return std::chrono::nanoseconds(nanoseconds_.load(std::memory_order_relaxed));
}

void SpinTime::succeeded() {
  in_vain_.store(0, std::memory_order_relaxed);
  nanoseconds_.store(std::min(kMost, 2 * nanoseconds_.load(std::memory_order_relaxed)), std::memory_order_relaxed);
}

void SpinTime::failed() {
  in_vain_.fetch_add(1, std::memory_order_relaxed);
  nanoseconds_.store(std::max(kLeast, nanoseconds_.load(std::memory_order_relaxed) / 2), std::memory_order_relaxed);
}

void Doorbell::ring() {
  ++rings_;
  if (sleepers_.load() > 0) {
    syscall(SYS_futex, &rings_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

void Doorbell::ring_sleepers() {
  if (sleepers_.load() > 0) {
    ring();
  }
}

bool Doorbell::spin(uint32_t seen, std::chrono::nanoseconds time) const {
  constexpr int kLooksPerTime = 16; // reading the clock costs about as much as a few looks
  const auto until = SteadyClock::now() + time;
  do {
    for (int i = 0; i < kLooksPerTime; ++i) {
      if (rings_.load(std::memory_order_acquire) != seen) {
        return true;
      }
      relax_core();
    }
  } while (SteadyClock::now() < until);
  return false;
}

void Doorbell::sleep(uint32_t seen, SteadyClock::time_point until) {
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(until - SteadyClock::now()).count();
  if (left <= 0) {
    return;
  }
  const timespec time{left / 1'000'000'000, left % 1'000'000'000};
  syscall(SYS_futex, &rings_, FUTEX_WAIT, seen, &time, nullptr, 0);
}

} // namespace weft
