#include "weft/comm/pending.h"

#include "weft/comm/wait_scope.h"

#include <c10/util/Exception.h>

#include <condition_variable>
#include <exception>
#include <thread>

namespace weft {

namespace {

/// Does what nobody waits for, one after the other, on a thread that lives as long as the process.
class Background {
 public:
  void run(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (!started_) {
      started_ = true;
      std::thread([this] { work(); }).detach();
    }
    changed_.notify_one();
  }

 private:
  [[noreturn]] void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !tasks_.empty(); });
      auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      task = nullptr;
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool started_ = false;
};

/// Tickets are numbers in order; the lowest bit says that finishing the operation communicates.
bool communicates(uint64_t ticket) {
  return (ticket & 1) != 0;
}

Background& background() {
  static auto* const instance = new Background();
  return *instance;
}

} // namespace

void Pending::State::attempt(std::function<void()>& step) {
  const auto once = std::exchange(step, nullptr);
  const WaitScope wait_scope;
  try {
    once();
  } catch (...) {
    error = std::current_exception();
    finish = nullptr;
  }
}

void Pending::State::advance() {
  if (start_second) {
    attempt(start_second);
  } else {
    run();
  }
}

void Pending::State::run() {
  if (start_second) {
    attempt(start_second);
  }
  if (finish) {
    attempt(finish);
  }
}

Pending::Pending(std::function<void()> finish) : state_(std::make_shared<State>()) {
  state_->finish = std::move(finish);
}

Pending::Pending(std::function<void()> start_second, std::function<void()> finish) : Pending(std::move(finish)) {
  state_->start_second = std::move(start_second);
}

Pending::~Pending() {
  settle();
}

Pending& Pending::operator=(Pending&& other) noexcept {
  if (this != &other) {
    settle();
    state_ = std::move(other.state_);
  }
  return *this;
}

bool Pending::done() const {
  return !state_ || !state_->finish;
}

void Pending::wait() {
  if (!state_) {
    return;
  }
  if (state_->progress) {
    state_->progress->advance_until(state_->ticket);
  }
  state_->run();
  if (state_->error) {
    std::rethrow_exception(state_->error);
  }
}

void Pending::settle() noexcept {
  if (done()) {
    return;
  }
  if (std::uncaught_exceptions() > 0) {
    // The transfer may still read and write the buffers that the state owns. They are released when it is over, or kept for
    // good where finishing it would communicate.
    if (state_->progress && !communicates(state_->ticket)) {
      background().run([state = std::move(state_)] { state->run(); });
      return;
    }
    static auto* mutex = new std::mutex();
    static auto* abandoned = new std::vector<std::shared_ptr<State>>();
    const std::lock_guard lock(*mutex);
    abandoned->push_back(std::move(state_));
    return;
  }
  try {
    wait();
  } catch (const std::exception& error) {
    TORCH_WARN("[weft] an operation that nobody waited for failed: ", error.what());
  }
}

Pending Progress::track(Pending pending, int64_t stages) {
  if (pending.state_ && !pending.state_->progress) {
    const std::lock_guard lock(mutex_);
    pending.state_->progress = shared_from_this();
    pending.state_->ticket = next_ticket_++ << 1 | (stages > 1 ? 1 : 0);
    if (stages > 1) {
      staged_.push_back(pending.state_);
    }
  }
  return pending;
}

void Progress::advance_until(uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  while (!staged_.empty() && staged_.front()->ticket <= ticket) {
    const auto first = std::move(staged_.front());
    staged_.pop_front();
    first->advance();
  }
}

AsyncTensor::AsyncTensor(at::Tensor value, Pending pending)
    : AsyncTensor(std::make_shared<at::Tensor>(std::move(value)), std::move(pending)) {}

AsyncTensor::AsyncTensor(std::shared_ptr<at::Tensor> value, Pending pending)
    : transfer_(std::make_shared<Transfer>(Transfer{std::move(value), std::move(pending)})) {}

bool AsyncTensor::ready() const {
  return !transfer_ || transfer_->pending.done();
}

void AsyncTensor::arrive() const {
  transfer_->pending.wait();
  value_ = *transfer_->value;
  transfer_.reset();
}

} // namespace weft
