#include "weft/comm/world/run_on_ranks.h"

#include "weft/comm/world/current_world.h"
#include "weft/comm/world/thread_world.h"

#include <ATen/Parallel.h>
#include <c10/core/AutogradState.h>
#include <c10/util/Exception.h>

#include <thread>

namespace weft {

namespace {

/// The first error of all ranks; later errors usually follow from it.
class FirstError {
 public:
  void set(int64_t rank, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (!error_) {
      rank_ = rank;
      error_ = std::move(error);
    }
  }

  void rethrow() {
    if (!error_) {
      return;
    }
    try {
      std::rethrow_exception(error_);
    } catch (c10::Error& error) {
      error.add_context(c10::str("on rank ", rank_));
      throw;
    } catch (const std::exception& error) {
      throw std::runtime_error(c10::str(error.what(), " (on rank ", rank_, ")"));
    }
  }

 private:
  std::mutex mutex_;
  int64_t rank_ = -1;
  std::exception_ptr error_;
};

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

std::string describe(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& e) {
    return first_line(e.what_without_backtrace());
  } catch (const std::exception& e) {
    return first_line(e.what());
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

} // namespace

void run_on_ranks(int64_t size, const std::function<void(int64_t)>& fn, RunOptions options) {
  TORCH_CHECK_VALUE(size > 0, "[run_on_ranks] at least one rank is required, but got ", size, ".");
  const auto hub = std::make_shared<ThreadHub>(size, options.timeout);
  FirstError first_error;
  const auto intraop_threads = std::max<int>(1, at::get_num_threads() / static_cast<int>(size));
  const auto run_rank = [&](int64_t rank) {
    // Runs backward on this thread, because on a thread of the autograd engine it would block the other ranks of the
    // device.
    c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
    at::set_num_threads(intraop_threads);
    try {
      const WorldScope scope(hub->communicator(rank));
      fn(rank);
      hub->leave(rank, "it has returned");
    } catch (...) {
      const auto error = std::current_exception();
      first_error.set(rank, error);
      hub->leave(rank, "it failed with: " + describe(error));
    }
  };
  const auto caller_threads = at::get_num_threads();
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < size; ++rank) {
    threads.emplace_back(run_rank, rank);
  }
  for (auto& thread : threads) {
    thread.join();
  }
  at::set_num_threads(caller_threads);
  first_error.rethrow();
}

} // namespace weft
