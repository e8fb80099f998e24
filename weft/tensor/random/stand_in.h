#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/StorageImpl.h>

#include <unordered_map>

namespace weft {

/// Views along sharded dims, for code that initialises a tensor. Only one rank holds the memory of weight[3] if the
/// rows of weight are sharded, so that the view would be a redistributed copy and weight[3].fill_(0) would raise.
/// Instead the view is a stand-in: a plain tensor on meta of the view's shape, made without communication. Views of a
/// stand-in are stand-ins too. An operator that fills a stand-in writes to the distributed tensor: each rank writes the
/// elements that it holds. An operator that reads a stand-in gets the redistributed view instead, by communication.
class StandIns {
 public:
  /// Runs the operator if it takes stand-ins or makes one; otherwise returns false and does not run it.
  bool run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

 private:
  struct Original {
    at::Tensor twin;   // the tensor on meta whose views are the stand-ins
    at::Tensor tensor; // the distributed tensor
  };
  /// The distributed tensor behind a stand-in; nullptr for other values.
  const at::Tensor* original_of(const c10::IValue& value) const;
  /// The view of the distributed tensor that the stand-in replaces.
  at::Tensor behind(const at::Tensor& stand_in);
  bool makes_one(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
  void write(const c10::OperatorHandle& op, torch::jit::Stack* stack);
  void read(const c10::OperatorHandle& op, torch::jit::Stack* stack);

  /// Keyed by the storage of the twin.
  std::unordered_map<const c10::StorageImpl*, Original> originals_;
  bool is_resolving_ = false;
};

} // namespace weft
