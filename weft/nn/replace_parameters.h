#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace torch::nn {
class Module;
} // namespace torch::nn

namespace weft::nn {

/// Replaces a parameter or buffer of `owner`, given by its own name ("weight", not a path), by `value`: in the module's
/// registry, and in the member that forward reads. The value becomes a leaf that requires a gradient if the replaced
/// tensor did. Nothing is changed if an error is raised.
///
///   replace_parameter(*linear, "weight", distribute_tensor(linear->weight.detach(), mesh, {Shard(0)}));
///
/// A C++ module keeps a tensor twice, registered and as a member. A plain tensor cannot become a distributed one in
/// place, because they have different classes and every handle points to the same object. So the members must be known:
/// they are for the modules of torch::nn; other modules name theirs by Replaceable. If the old and the new value have
/// the same spec, no member need be known: the old tensor takes over the new one's memory, in all handles and wherever
/// it is tied.
void replace_parameter(torch::nn::Module& owner, const std::string& name, at::Tensor value);

/// The member in which `owner` keeps a parameter or buffer, or nullptr if it reads it by name. Raises where that is not known.
at::Tensor* member_of(torch::nn::Module& owner, const std::string& name);

/// The members of a module that hold its tensors, by registered name. A tensor that the module only reads by name, as
/// named_parameters()["weight"], is listed with nullptr.
using TensorMembers = std::map<std::string, at::Tensor*>;

/// Base class of your own modules whose parameters are to be replaced.
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
