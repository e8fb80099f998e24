#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace weft {

class Progress;

/// Sees to it that one thread at a time uses a group: ranks number the calls of two threads in different orders, and would
/// take the values of one thread's calls for those of the other's.
///
/// A thread is in a call while it waits for one that it has started itself. Whoever only reads a value, as a thread that
/// logs does, is not. Threads may take turns: autograd's device threads do, while the thread that called backward waits.
class GroupUse {
 public:
  explicit GroupUse(std::string group) : group_(std::move(group)) {}

  /// Raises where another thread is in a call, and from then on: it cannot be known which values are right.
  void check_turn(std::string_view collective);
  /// Raises where a call has been made while another thread was in one.
  void check_alone(std::string_view where) const;

  /// This thread is in a call until leave is given what this returns.
  std::thread::id enter() {
    return waiting_.exchange(std::this_thread::get_id());
  }
  void leave(std::thread::id outer) {
    waiting_ = outer;
  }

 private:
  std::string group_;
  std::atomic<std::thread::id> waiting_ = std::thread::id();
  std::atomic<bool> is_shared_ = false;
};

/// An operation under way. wait() returns when its outputs may be read and its inputs reused, or rethrows its error.
/// Any thread may wait for it; the others wait for the first that does.
///
/// Letting go of one waits too, so that no buffer dies under a transfer; during stack unwinding it keeps the buffers
/// alive instead, so that an error is never held up by ranks that wait for the one that failed.
class Pending {
 public:
  /// Nothing to wait for.
  Pending() = default;
  /// `finish` waits for what was started and does what is left to do; it runs once.
  explicit Pending(std::function<void()> finish);
  /// Of two stages: `start_second` waits for the first and starts the second, which `finish` then waits for.
  Pending(std::function<void()> start_second, std::function<void()> finish);
  ~Pending() {
    if (!done()) {
      settle();
    }
  }
  Pending(Pending&& other) noexcept = default;
  Pending& operator=(Pending&& other) noexcept;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  bool done() const {
    return !state_ || state_->is_done;
  }
  void wait();

 private:
  friend class Progress;

  struct State {
    std::function<void()> start_second; // where there is one, and it is not under way
    std::function<void()> finish;
    std::exception_ptr error;
    std::shared_ptr<Progress> progress;
    uint64_t ticket = 0;
    std::shared_ptr<GroupUse> use; // of a call of a group
    std::thread::id starter = std::this_thread::get_id();
    std::atomic<bool> is_done = false;

    /// Starts the last stage; does all where it is not known how to.
    void advance();
    void run();

   private:
    void attempt(std::function<void()>& step);
    void take(std::function<void()>& step);

    std::recursive_mutex mutex_;
  };

  void settle() noexcept;

  std::shared_ptr<State> state_;
};

/// Keeps the operations of one rank in the order in which they were started.
///
/// An operation of several stages starts its later stages when it is waited for. Were ranks to wait in different orders
/// (one of them prints a value, say), each could sit in a stage that the others have not started. So a wait first brings
/// every operation of several stages that was started earlier to its last stage, which then goes on by itself. These are
/// the operations that were started on the same thread, and those of the same group: what another thread has started on
/// other groups may wait for ranks whose threads wait for this one.
class Progress : public std::enable_shared_from_this<Progress> {
 public:
  /// Puts a pending operation in order; `stages` > 1 if finishing it communicates.
  /// The group of the call, if it is one, is known by `use`.
  Pending track(Pending pending, int64_t stages, std::shared_ptr<GroupUse> use = {});

 private:
  friend class Pending;

  /// Starts the last stage of the operations that go before this one; errors stay with their operations.
  void advance_until(const Pending::State& last);
  std::shared_ptr<Pending::State> take_staged(const Pending::State& last);

  std::mutex mutex_;
  uint64_t next_ticket_ = 1;
  std::list<std::shared_ptr<Pending::State>> staged_; // in the order in which they were started
};

/// A tensor that may still be on its way: wait() gives it, waiting the first time.
class AsyncTensor {
 public:
  AsyncTensor() = default;
  /// Already there.
  AsyncTensor(at::Tensor value) : value_(std::move(value)) {}
  AsyncTensor(at::Tensor value, Pending pending);
  /// The value is what `value` holds once `pending` is done.
  AsyncTensor(std::shared_ptr<at::Tensor> value, Pending pending);

  bool ready() const;
  const at::Tensor& wait() const {
    if (C10_UNLIKELY(transfer_ != nullptr)) {
      arrive();
    }
    return value_;
  }

 private:
  void arrive() const;

  struct Transfer {
    std::shared_ptr<at::Tensor> value;
    Pending pending;
  };

  mutable at::Tensor value_;
  mutable std::shared_ptr<Transfer> transfer_;
};

} // namespace weft
