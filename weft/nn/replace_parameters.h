#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace torch::nn {
class Module;
} // namespace torch::nn

namespace weft::nn {

/// Puts `value` in the place of a parameter or buffer of `owner`, whose own name it has there ("weight", not a path):
/// among what the module has registered, and in the member that forward reads. It becomes a leaf that requires a gradient
/// if the replaced one did. Nothing is changed where an error is raised.
///
///   replace_parameter(*linear, "weight", distribute_tensor(linear->weight.detach(), mesh, {Shard(0)}));
///
/// A module of C++ keeps a tensor twice, registered and as a member, and a plain tensor cannot become a distributed one in
/// place: the two are of different classes, and every handle points to the same object. So the members must be known.
/// They are for the modules of torch::nn; others name them by Replaceable. Where the old value and the new one have the
/// same spec nothing need be known: the old one takes over the new one's memory, in all handles and wherever it is tied.
void replace_parameter(torch::nn::Module& owner, const std::string& name, at::Tensor value);

/// Where a module keeps its tensors, by the name they are registered under. Those that it only reads by name, as
/// named_parameters()["weight"], are listed with nullptr.
using TensorMembers = std::map<std::string, at::Tensor*>;

/// To be derived from by modules of one's own whose parameters are to be replaced.
///
///   struct ScaleImpl : torch::nn::Module, weft::nn::Replaceable {
///     at::Tensor weight = register_parameter("weight", torch::ones({8}));
///     weft::nn::TensorMembers tensor_members() override { return {{"weight", &weight}}; }
///   };
class Replaceable {
 public:
  virtual ~Replaceable() = default;
  virtual TensorMembers tensor_members() = 0;
};

} // namespace weft::nn
