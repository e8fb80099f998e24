#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace weft {

class Progress;

/// An operation under way. wait() returns when its outputs may be read and its inputs reused, or rethrows its error.
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
  ~Pending();
  Pending(Pending&& other) noexcept = default;
  Pending& operator=(Pending&& other) noexcept;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  bool done() const;
  void wait();

 private:
  friend class Progress;

  struct State {
    std::function<void()> start_second; // where there is one, and it is not under way
    std::function<void()> finish;
    std::exception_ptr error;
    std::shared_ptr<Progress> progress;
    uint64_t ticket = 0;

    /// Starts the last stage; does all where it is not known how to.
    void advance();
    void run();

   private:
    void attempt(std::function<void()>& step);
  };

  void settle() noexcept;

  std::shared_ptr<State> state_;
};

/// Keeps the operations of one rank in the order in which they were started.
///
/// An operation of several stages starts its later stages when it is waited for. Were ranks to wait in different orders
/// (one of them prints a value, say), each could sit in a stage that the others have not started. So a wait first brings
/// every operation of several stages that was started earlier to its last stage, which then goes on by itself.
class Progress : public std::enable_shared_from_this<Progress> {
 public:
  /// Puts a pending operation in order; `stages` > 1 if finishing it communicates.
  Pending track(Pending pending, int64_t stages);
  /// Starts the last stage of all operations up to the one of this ticket; errors stay with their operations.
  void advance_until(uint64_t ticket);

 private:
  std::recursive_mutex mutex_;
  uint64_t next_ticket_ = 1;
  std::deque<std::shared_ptr<Pending::State>> staged_;
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
