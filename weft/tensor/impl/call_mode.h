#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace weft {

/// While an object of this class exists, every operator that this thread calls goes to call() first: on plain and
/// distributed tensors, composite or not, and also the operators that other operators call. Modes nest; only the
/// innermost sees the calls.
///
///   struct Counting : CallMode {
///     int calls = 0;
///     void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) override {
///       ++calls;
///       op.redispatchBoxed(keys, stack);
///     }
///   };
class CallMode {
 public:
  CallMode();
  virtual ~CallMode();
  CallMode(const CallMode&) = delete;
  CallMode& operator=(const CallMode&) = delete;

 protected:
  /// Runs the operator; `keys` are the call's dispatch keys without the key of this mode.
  virtual void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) = 0;

 private:
  friend void call_in_mode(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
  CallMode* outer_;
};

} // namespace weft
