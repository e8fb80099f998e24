#include "weft/files/share_work.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace weft {

void share_work(size_t threads, size_t count, const std::function<void(const NextItem& next)>& work) {
  std::atomic<size_t> first_free = 0;
  std::atomic<bool> has_failed = false;
  std::exception_ptr error;
  std::mutex mutex;
  const NextItem next = [&]() -> std::optional<size_t> {
    const auto item = first_free++;
    return item < count && !has_failed ? std::optional(item) : std::nullopt;
  };
  const auto run = [&] {
    try {
      work(next);
    } catch (...) {
      const std::lock_guard lock(mutex);
      error = error ? error : std::current_exception();
      has_failed = true;
    }
  };
  std::vector<std::thread> others;
  others.reserve(std::min(threads, count));
  try {
    while (others.size() + 1 < std::min(threads, count)) {
      others.emplace_back(run);
    }
  } catch (const std::system_error&) {
    // The limit of threads is reached: fewer threads take longer, but need not fail.
  }
  run();
  for (auto& thread : others) {
    thread.join();
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

} // namespace weft
