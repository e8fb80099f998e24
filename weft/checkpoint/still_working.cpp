#include "weft/checkpoint/still_working.h"

#include <algorithm>
#include <system_error>

namespace weft {

StillWorking::StillWorking(const RankTexts& ranks) : ranks_(ranks) {
  if (ranks_.size() == 1) {
    return;
  }
  try {
    thread_ = std::thread([this] {
      try {
        talk();
      } catch (...) {
        error_ = std::current_exception();
      }
    });
  } catch (const std::system_error&) {
    // The limit of threads is reached: the others hear of this rank when it is done.
  }
}

StillWorking::~StillWorking() {
  end();
}

void StillWorking::wait_for_all() {
  if (thread_.joinable()) {
    end();
  } else if (ranks_.size() > 1) {
    is_done_ = true;
    talk();
  }
  if (error_) {
    std::rethrow_exception(error_);
  }
}

void StillWorking::end() {
  {
    const std::lock_guard lock(mutex_);
    is_done_ = true;
  }
  done_.notify_one();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void StillWorking::talk() {
  // Much shorter than the timeout, within which all ranks must take part in a round.
  const auto round = std::min(ranks_.timeout() / 4, std::chrono::milliseconds(1000));
  while (true) {
    std::unique_lock lock(mutex_);
    const bool is_done = done_.wait_for(lock, round, [this] { return is_done_; });
    lock.unlock();
    const auto answers = ranks_.all_gather(is_done ? "done" : "working");
    if (std::all_of(answers.begin(), answers.end(), [](const auto& answer) { return answer == "done"; })) {
      return;
    }
  }
}

} // namespace weft
