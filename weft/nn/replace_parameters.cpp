#include "weft/nn/replace_parameters.h"

#include "weft/nn/registered_tensors.h"
#include "weft/tensor/impl/dtensor_impl.h"

#include <torch/nn/modules.h>

#include <optional>
#include <vector>

namespace weft::nn {

namespace {

namespace tnn = torch::nn;
using Module = torch::nn::Module;

template <class M>
TensorMembers weight_of(M& module) {
  return {{"weight", &module.weight}};
}

template <class M>
TensorMembers weight_and_bias_of(M& module) {
  return {{"weight", &module.weight}, {"bias", &module.bias}};
}

template <class M>
TensorMembers norm_of(M& module) {
  return {
      {"weight", &module.weight},
      {"bias", &module.bias},
      {"running_mean", &module.running_mean},
      {"running_var", &module.running_var},
      {"num_batches_tracked", &module.num_batches_tracked}};
}

template <class M>
TensorMembers cell_of(M& module) {
  return {
      {"weight_ih", &module.weight_ih},
      {"weight_hh", &module.weight_hh},
      {"bias_ih", &module.bias_ih},
      {"bias_hh", &module.bias_hh}};
}

TensorMembers attention_of(tnn::MultiheadAttentionImpl& module) {
  return {
      {"in_proj_weight", &module.in_proj_weight},
      {"in_proj_bias", &module.in_proj_bias},
      {"q_proj_weight", &module.q_proj_weight},
      {"k_proj_weight", &module.k_proj_weight},
      {"v_proj_weight", &module.v_proj_weight},
      {"bias_k", &module.bias_k},
      {"bias_v", &module.bias_v}};
}

TensorMembers loss_of(tnn::BCEWithLogitsLossImpl& module) {
  return {{"weight", &module.weight}, {"pos_weight", &module.pos_weight}};
}

/// Recurrent modules keep their tensors in a list, in the order of their names.
template <class M>
struct Recurrent : M {
  static TensorMembers members(M& module) {
    auto& tensors = module.*(&Recurrent::flat_weights_);
    const auto& names = module.*(&Recurrent::flat_weights_names_);
    TensorMembers result;
    for (size_t i = 0; i < tensors.size(); ++i) {
      result.emplace(names[i], &tensors[i]);
    }
    return result;
  }
};

/// The tensors of a module that reads them by name only.
TensorMembers listed_of(Module& module) {
  TensorMembers result;
  for (const auto& item : registered_parameters(module)) {
    result.emplace(item.key(), nullptr);
  }
  return result;
}

/// Adds the members for the first of the given types that `module` has.
template <class... Ms, class Of>
bool adds_one_of(Module& module, const Of& of, TensorMembers& members) {
  const auto add = [&](auto* found) {
    if (found != nullptr) {
      members.merge(of(*found));
    }
    return found != nullptr;
  };
  return (add(dynamic_cast<Ms*>(&module)) || ...);
}

/// The known members of a module; empty if it is neither of torch::nn nor Replaceable. A class derived from one of
/// torch::nn may name additional members.
std::optional<TensorMembers> known_members(Module& module) {
  TensorMembers members;
  bool known = false;
  if (auto* replaceable = dynamic_cast<Replaceable*>(&module)) {
    members = replaceable->tensor_members();
    known = true;
  }
  const auto weight = [](auto& m) { return weight_of(m); };
  const auto weight_option = [](auto& m) { return TensorMembers{{"weight", &m.options.weight()}}; };
  const auto weight_and_bias = [](auto& m) { return weight_and_bias_of(m); };
  const auto norm = [](auto& m) { return norm_of(m); };
  const auto cell = [](auto& m) { return cell_of(m); };
  const auto recurrent = []<class M>(M& m) { return Recurrent<M>::members(m); };
  known |=
      adds_one_of<
          tnn::LinearImpl, tnn::BilinearImpl, tnn::LayerNormImpl, tnn::GroupNormImpl, tnn::Conv1dImpl, tnn::Conv2dImpl,
          tnn::Conv3dImpl, tnn::ConvTranspose1dImpl, tnn::ConvTranspose2dImpl, tnn::ConvTranspose3dImpl>(
          module, weight_and_bias, members) ||
      adds_one_of<
          tnn::EmbeddingImpl, tnn::EmbeddingBagImpl, tnn::PReLUImpl, tnn::CrossEntropyLossImpl, tnn::NLLLossImpl>(
          module, weight, members) ||
      adds_one_of<tnn::BCELossImpl, tnn::MultiMarginLossImpl, tnn::MultiLabelSoftMarginLossImpl>(
          module, weight_option, members) ||
      adds_one_of<
          tnn::BatchNorm1dImpl, tnn::BatchNorm2dImpl, tnn::BatchNorm3dImpl, tnn::InstanceNorm1dImpl,
          tnn::InstanceNorm2dImpl, tnn::InstanceNorm3dImpl>(module, norm, members) ||
      adds_one_of<tnn::RNNCellImpl, tnn::LSTMCellImpl, tnn::GRUCellImpl>(module, cell, members) ||
      adds_one_of<tnn::RNNImpl, tnn::LSTMImpl, tnn::GRUImpl>(module, recurrent, members) ||
      adds_one_of<tnn::MultiheadAttentionImpl>(module, attention_of, members) ||
      adds_one_of<tnn::BCEWithLogitsLossImpl>(module, loss_of, members) ||
      adds_one_of<tnn::ParameterListImpl, tnn::ParameterDictImpl>(module, listed_of, members);
  return known ? std::optional(std::move(members)) : std::nullopt;
}

at::Tensor& registered(Module& owner, const std::string& name) {
  std::vector<std::string> names;
  for (auto* tensors : {&registered_parameters(owner), &registered_buffers(owner)}) {
    if (auto* found = tensors->find(name); found != nullptr && found->defined()) {
      return *found;
    }
    for (const auto& item : *tensors) {
      if (item->defined()) {
        names.push_back(item.key());
      }
    }
  }
  TORCH_CHECK_VALUE(
      false, "[replace_parameter] a parameter or buffer of ", owner.name(), " is required, but got '", name,
      "'. It has: ", names, ".");
}

/// The member that holds the tensor, or nullptr if the module reads it by name.
at::Tensor* member(Module& owner, const std::string& name, const at::Tensor& entry) {
  const auto members = known_members(owner);
  const auto found = members ? members->find(name) : TensorMembers::const_iterator();
  TORCH_CHECK_NOT_IMPLEMENTED(
      members && found != members->end(), "[replace_parameter] where ", owner.name(), " keeps '", name,
      "' must be known. Derive it from weft::nn::Replaceable and name the member in tensor_members().");
  TORCH_CHECK_VALUE(
      found->second == nullptr || found->second->is_same(entry), "[replace_parameter] the member of ", owner.name(),
      " that holds '", name, "' must be the tensor that is registered under that name, but it is another one. ",
      "To tie a tensor to another, assign it by replace_parameter, which does both.");
  return found->second;
}

bool has_spec_of(const at::Tensor& one, const at::Tensor& other) {
  return is_dtensor(one) && is_dtensor(other) && as_dtensor(one)->spec() == as_dtensor(other)->spec();
}

} // namespace

at::Tensor* member_of(Module& owner, const std::string& name) {
  return member(owner, name, registered(owner, name));
}

void replace_parameter(Module& owner, const std::string& name, at::Tensor value) {
  auto& entry = registered(owner, name);
  TORCH_CHECK_VALUE(
      value.defined() && value.is_leaf(), "[replace_parameter] a leaf is required for '", name, "' of ", owner.name(),
      ", but got ", value.defined() ? "a tensor that has a history. Detach it first." : "an undefined tensor.");
  const bool requires_grad = entry.requires_grad();
  if (has_spec_of(entry, value)) {
    entry.set_data(value);
    return;
  }
  auto* const held = member(owner, name, entry);
  entry = value.set_requires_grad(requires_grad);
  if (held != nullptr) {
    *held = entry;
  }
}

} // namespace weft::nn
