#pragma once

#include "weft/tensor/impl/dtensor_impl.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace weft {

/// The pointer type of autograd's nodes, which depends on the version of torch.
using NodePtr = std::remove_cvref_t<decltype(std::declval<const at::Tensor&>().grad_fn())>;

/// The autograd node of a function of one tensor. It costs less than a torch::autograd::Function, which keeps what it
/// saves in maps.
class UnaryNode : public torch::autograd::Node {
 public:
  /// The gradient of the input; `gradient` is that of the output and is defined.
  virtual at::Tensor backward(const at::Tensor& gradient) = 0;

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    torch::autograd::variable_list results(1);
    if (gradients[0].defined()) {
      // A leaf keeps a gradient that only it refers to, and adds to it in place. The result may share memory with the
      // gradient of another tensor.
      const bool is_copied = goes_to_leaf() && has_other_users(gradients[0]);
      results[0] = backward(gradients[0]);
      if (C10_UNLIKELY(is_copied)) {
        results[0] = results[0].clone();
      }
    }
    return results;
  }

 private:
  bool goes_to_leaf() const {
    return dynamic_cast<const torch::autograd::AccumulateGrad*>(next_edge(0).function.get()) != nullptr;
  }
  /// Whether other tensors share the memory of a gradient that this node is given.
  static bool has_other_users(const at::Tensor& gradient) {
    const auto* distributed = as_dtensor(gradient);
    const auto& local = distributed != nullptr ? distributed->local() : gradient;
    return gradient.use_count() > 1 || local.use_count() > 1 ||
        (local.has_storage() && local.storage().use_count() > 1);
  }
};

/// A pointer of type Ptr, which is NodePtr, to a new node of type T.
template <class T, class Ptr, class... Args>
Ptr make_node(Args&&... args) {
  if constexpr (std::is_same_v<Ptr, std::shared_ptr<torch::autograd::Node>>) {
    // torch's own deleter, which frees long chains of nodes without recursion.
    return Ptr(new T(std::forward<Args>(args)...), [](T* made) { deleteNode(made); });
  } else {
    return Ptr::unsafe_steal_from_new(new T(std::forward<Args>(args)...));
  }
}

/// Makes a node of type T, made of `args`, the gradient function of `result`, which was computed from `input`.
template <class T, class... Args>
void record(const at::Tensor& input, const at::Tensor& result, Args&&... args) {
  const auto node = make_node<T, NodePtr>(std::forward<Args>(args)...);
  node->set_next_edges(torch::autograd::collect_next_edges(input));
  torch::autograd::set_history(result, node);
}

} // namespace weft
