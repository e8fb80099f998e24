#pragma once

#include "weft/tensor/impl/call_mode.h"

namespace weft::nn {

/// In this scope, tensors that this thread makes without naming a device are on meta: they have shapes and no memory.
/// So a module of any size can be built and parallelised before it gets memory (materialize).
///
///   auto model = [] {
///     const weft::nn::OnMeta scope;
///     return Decoder(options);
///   }();
///
/// Initialising such tensors costs nothing. Writing to their memory directly, as at::tensor({1., 2.}) does, raises an
/// error: name the device there, at::tensor({1., 2.}, at::kCPU).
class OnMeta : public CallMode {
 protected:
  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) override;
};

} // namespace weft::nn
