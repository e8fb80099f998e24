#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace weft {

/// Sees every operator that this thread calls while it lasts, before anything else does: plain or distributed, made of
/// others or not, and those that operators call in turn. Scopes nest, and the innermost alone sees the calls.
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
  /// Runs the operator; `keys` are those of the call without this mode.
  virtual void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) = 0;

 private:
  friend void call_in_mode(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
  CallMode* outer_;
};

} // namespace weft
