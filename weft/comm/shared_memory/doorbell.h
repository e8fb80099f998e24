#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace weft {

/// How long a waiting thread spins before it sleeps. Spinning pays where the awaited process runs on another core. It
/// delays a process that waits for this very core; therefore the time is halved whenever spinning was in vain, and doubled
/// when it was not. Once in a while spinning is tried again.
class SpinTime {
 public:
  std::chrono::nanoseconds next();
  void succeeded();
  void failed();

 private:
  static constexpr int64_t kMost = 100'000;
  static constexpr int64_t kLeast = 1'000;
  static constexpr int kTryEvery = 32;

  std::atomic<int64_t> nanoseconds_ = kMost;
  std::atomic<int> in_vain_ = 0;
};

/// By which other processes wake the threads of one process: it is in shared memory, and waiting for it is a futex. All
/// zeros is a doorbell that has not been rung.
class Doorbell {
 public:
  /// The number of times it was rung, modulo 2^32.
  uint32_t rings() const {
    return rings_.load();
  }
  /// Wakes the threads that wait.
  void ring();
  /// The same for an event for which a thread seldom waits: costs only a look if no thread sleeps. A thread that spins
  /// does not see it before it sleeps.
  void ring_sleepers();

  /// Blocks until it has been rung since rings() was `seen`, `happened` is true or the time is over. `happened` is called
  /// once before the thread sleeps. Whether one of the two is the case.
  template <class Happened>
  bool wait(uint32_t seen, std::chrono::steady_clock::time_point until, SpinTime& spin_time, const Happened& happened);

 private:
  bool spin(uint32_t seen, std::chrono::nanoseconds time) const;
  void sleep(uint32_t seen, std::chrono::steady_clock::time_point until);

  alignas(64) std::atomic<uint32_t> rings_;
  std::atomic<uint32_t> sleepers_;
};

static_assert(std::atomic<uint32_t>::is_always_lock_free);

template <class Happened>
bool Doorbell::wait(
    uint32_t seen,
    std::chrono::steady_clock::time_point until,
    SpinTime& spin_time,
    const Happened& happened) {
  if (spin(seen, spin_time.next())) {
    spin_time.succeeded();
    return true;
  }
  spin_time.failed();
  ++sleepers_;
  const bool has_happened = happened();
  if (!has_happened) {
    sleep(seen, until);
  }
  --sleepers_;
  return has_happened || rings() != seen;
}

} // namespace weft
