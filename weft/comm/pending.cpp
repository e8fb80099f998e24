#include "weft/comm/pending.h"

#include "weft/comm/wait_scope.h"

#include <c10/util/Exception.h>

#include <condition_variable>
#include <deque>
#include <exception>

namespace weft {

namespace {

/// Runs, one after the other, the operations that are released without a wait, on a thread that lives as long as the
/// process.
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

/// Tickets are increasing numbers; the lowest bit is set if finishing the operation communicates.
bool communicates(uint64_t ticket) {
  return (ticket & 1) != 0;
}

Background& background() {
  static auto* const instance = new Background();
  return *instance;
}

} // namespace

void GroupUse::check_single_thread(std::string_view collective) {
  const auto waiting = waiting_.load();
  if (waiting != std::thread::id() && waiting != std::this_thread::get_id()) {
    is_shared_ = true;
  }
  check_alone(collective);
}

void GroupUse::check_alone(std::string_view where) const {
  TORCH_CHECK_WITH(
      DistBackendError, !is_shared_, "[", where, "] one thread at a time may use ", group_,
      ", but two threads have made calls at the same time. Make a mesh with other dim names for each thread.");
}

void Pending::State::attempt(std::function<void()>& step) {
  const auto once = std::exchange(step, nullptr);
  try {
    once();
    if (use) {
      use->check_alone("comm");
    }
  } catch (...) {
    error = std::current_exception();
    finish = nullptr;
  }
}

void Pending::State::take(std::function<void()>& step) {
  if (use && starter == std::this_thread::get_id()) {
    const auto outer = use->enter();
    attempt(step);
    use->leave(outer);
  } else {
    attempt(step);
  }
}

void Pending::State::advance() {
  const WaitScope wait_scope; // outlives the lock: the lock must be released before the interpreter's is acquired again
  const std::lock_guard lock(mutex_);
  if (start_second) {
    take(start_second);
  } else if (finish) {
    take(finish);
  }
  is_done = !finish;
}

void Pending::State::run() {
  while (!is_done) {
    advance();
  }
}

Pending::Pending(std::function<void()> finish) : state_(std::make_shared<State>()) {
  state_->finish = std::move(finish);
}

Pending::Pending(std::function<void()> start_second, std::function<void()> finish) : Pending(std::move(finish)) {
  state_->start_second = std::move(start_second);
}

Pending& Pending::operator=(Pending&& other) noexcept {
  if (this != &other) {
    settle();
    state_ = std::move(other.state_);
  }
  return *this;
}

void Pending::wait() {
  if (!state_) {
    return;
  }
  if (state_->progress) {
    state_->progress->advance_until(*state_);
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
    // The transfer may still read and write the buffers that the state owns. They are released when the transfer is
    // over, or never if finishing it would communicate.
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
    TORCH_WARN("[weft] an operation that was released without a wait failed: ", error.what());
  }
}

Pending Progress::track(Pending pending, int64_t stages, std::shared_ptr<GroupUse> use) {
  if (pending.state_ && !pending.state_->progress) {
    const std::lock_guard lock(mutex_);
    pending.state_->progress = shared_from_this();
    pending.state_->use = std::move(use);
    pending.state_->ticket = next_ticket_++ << 1 | (stages > 1 ? 1 : 0);
    if (stages > 1) {
      staged_.push_back(pending.state_);
    }
  }
  return pending;
}

void Progress::advance_until(const Pending::State& last) {
  while (const auto first = take_staged(last)) {
    first->advance();
  }
}

std::shared_ptr<Pending::State> Progress::take_staged(const Pending::State& last) {
  const std::lock_guard lock(mutex_);
  for (auto each = staged_.begin(); each != staged_.end() && (*each)->ticket <= last.ticket; ++each) {
    const auto& state = **each;
    if (state.starter == std::this_thread::get_id() || state.starter == last.starter ||
        (last.use && state.use == last.use)) {
      auto found = std::move(*each);
      staged_.erase(each);
      return found;
    }
  }
  return nullptr;
}

AsyncTensor::AsyncTensor(at::Tensor value, Pending pending) {
  if (pending.state_ == nullptr) { // there is nothing to wait for, nor an error to raise
    value_ = std::move(value);
  } else {
    transfer_ =
        std::make_shared<Transfer>(Transfer{std::make_shared<at::Tensor>(std::move(value)), std::move(pending)});
  }
}

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
