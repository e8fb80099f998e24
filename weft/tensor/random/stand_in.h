#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/StorageImpl.h>

#include <unordered_map>

namespace weft {

/// Views of cut dims for code that initialises a tensor: weight[3].fill_(0) of a weight whose rows are cut has no memory
/// that all ranks could share, so that the view would be a copy that had to be moved. Instead it is a plain tensor on meta
/// that stands in for it: it has the shape, views of it are stand-ins too, and nothing is communicated. What fills it is
/// written to the whole tensor's parts, by each rank to its own. What reads it gets the view itself, by communication.
class StandIns {
 public:
  /// Runs the operator, where it takes stand-ins or makes one; false where it has nothing to do with them, and is not run.
  bool run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

 private:
  struct Whole {
    at::Tensor twin; // on meta
    at::Tensor tensor;
  };
  const at::Tensor* whole_of(const c10::IValue& value) const;
  /// The view of the tensor itself that is stood in for.
  at::Tensor behind(const at::Tensor& stand_in);
  bool makes_one(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
  void write(const c10::OperatorHandle& op, torch::jit::Stack* stack);
  void read(const c10::OperatorHandle& op, torch::jit::Stack* stack);

  /// By the storage of the twin.
  std::unordered_map<const c10::StorageImpl*, Whole> wholes_;
  bool is_resolving_ = false;
};

} // namespace weft
