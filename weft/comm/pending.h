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

/// Checks that only one thread at a time uses a group. Otherwise ranks could number the calls of two threads in
/// different orders, and a call of one thread would receive the values of the other thread's call.
///
/// A thread is in a call while it waits for a call that it has started itself. A thread that only reads a value, for
/// example to log it, is not. Threads may use the group one after the other: autograd's device threads do, while the
/// thread that called backward waits.
class GroupUse {
 public:
  explicit GroupUse(std::string group) : group_(std::move(group)) {}

  /// Raises if another thread is in a call, and at every later call, because it is unknown which values are right.
  void check_single_thread(std::string_view collective);
  /// Raises if a call has been made while another thread was in one.
  void check_alone(std::string_view where) const;

  /// This thread is in a call until it passes the returned id to leave().
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
/// Any thread may wait; if several do, the first one finishes the operation and the others wait for it.
///
/// The destructor waits too, so that no buffer is freed during a transfer. During stack unwinding it does not wait but
/// keeps the buffers alive, so that an error is not delayed by ranks that wait for the failed rank.
class Pending {
 public:
  /// An operation that is done already.
  Pending() = default;
  /// `finish` waits for the started transfer and then does the remaining work; it runs once.
  explicit Pending(std::function<void()> finish);
  /// An operation of two stages: `start_second` waits for the first stage and starts the second; `finish` waits for
  /// that one.
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
  friend class AsyncTensor;

  struct State {
    std::function<void()> start_second; // if there is a second stage that has not started
    std::function<void()> finish;
    std::exception_ptr error;
    std::shared_ptr<Progress> progress;
    uint64_t ticket = 0;
    std::shared_ptr<GroupUse> use; // if the operation is a call of a group
    std::thread::id starter = std::this_thread::get_id();
    std::atomic<bool> is_done = false;

    /// Starts the last stage, or runs the operation to its end if it has only one function.
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

/// Advances the operations of one rank in the order in which they were started.
///
/// An operation of several stages starts its later stages when a thread waits for it. If ranks waited in different
/// orders (for example because one of them prints a value), each rank could block in a stage that the others have not
/// started. Therefore a wait first advances every earlier operation of several stages to its last stage, which needs no
/// further call. This applies to operations started on the same thread or on the same group only: an operation that
/// another thread has started on another group may depend on ranks whose threads wait for this one.
class Progress : public std::enable_shared_from_this<Progress> {
 public:
  /// Registers a pending operation; `stages` > 1 if finishing it communicates. `use` identifies the group if the
  /// operation is a call of a group.
  Pending track(Pending pending, int64_t stages, std::shared_ptr<GroupUse> use = {});

 private:
  friend class Pending;

  /// Starts the last stage of the operations that precede `last`; an error stays with its operation.
  void advance_until(const Pending::State& last);
  std::shared_ptr<Pending::State> take_staged(const Pending::State& last);

  std::mutex mutex_;
  uint64_t next_ticket_ = 1;
  std::list<std::shared_ptr<Pending::State>> staged_; // in the order in which they were started
};

/// A tensor that may still be on its way: wait() returns it, and blocks only the first time.
class AsyncTensor {
 public:
  AsyncTensor() = default;
  /// A value that is already there.
  AsyncTensor(at::Tensor value) : value_(std::move(value)) {}
  AsyncTensor(at::Tensor value, Pending pending);
  /// The value is the tensor that `value` points to once `pending` is done.
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
