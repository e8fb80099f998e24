#include "weft/nn/load_pretrained.h"

#include "weft/checkpoint/huggingface.h"
#include "weft/checkpoint/manifest.h"
#include "weft/checkpoint/state/save.h"
#include "weft/nn/materialize.h"
#include "weft/nn/registered_tensors.h"
#include "weft/nn/replace_parameters.h"
#include "weft/tensor/distribute.h"

#include <ATen/ops/empty_like.h>
#include <torch/nn/module.h>

namespace weft::nn {

namespace {

/// The names of every tensor of a module, and where each is registered.
struct NamedTensor {
  at::Tensor tensor;
  std::vector<std::string> names;
  std::vector<std::pair<torch::nn::Module*, std::string>> places;
};

std::vector<NamedTensor> tensors_of(torch::nn::Module& root) {
  std::vector<NamedTensor> result;
  std::map<const c10::TensorImpl*, size_t> seen;
  const std::function<void(torch::nn::Module&, const std::string&)> visit = [&](auto& module, const auto& prefix) {
    for (auto* tensors : {&registered_parameters(module), &registered_buffers(module)}) {
      for (const auto& name : tensors->keys()) {
        const auto& tensor = (*tensors)[name];
        if (tensor.defined()) {
          const auto [found, is_new] = seen.try_emplace(tensor.unsafeGetTensorImpl(), result.size());
          if (is_new) {
            result.push_back({tensor, {}, {}});
          }
          result[found->second].names.push_back(prefix + name);
          result[found->second].places.emplace_back(&module, name);
        }
      }
    }
    for (const auto& child : module.named_children()) {
      visit(**child, prefix + child.key() + ".");
    }
  };
  visit(root, "");
  return result;
}

/// Memory for a tensor on meta: in place for a distributed one, else a new tensor wherever it is registered.
at::Tensor with_memory(const NamedTensor& named, c10::Device device) {
  if (!named.tensor.is_meta()) {
    return named.tensor;
  }
  if (is_dtensor(named.tensor)) {
    give_memory(named.tensor);
    return named.tensor;
  }
  const auto made = at::empty_like(named.tensor, named.tensor.options().device(device))
                        .set_requires_grad(named.tensor.requires_grad());
  for (const auto& [module, name] : named.places) {
    replace_parameter(*module, name, made);
  }
  return made;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) {
    text += (text.empty() ? "'" : ", '") + name + "'";
  }
  return text.empty() ? "none" : text;
}

} // namespace

LoadedKeys load_pretrained(torch::nn::Module& module, const std::string& folder, const LoadPretrainedOptions& options) {
  const auto stored =
      is_huggingface(folder) ? read_huggingface(folder) : load_manifest(folder, "load_pretrained").stored;
  const auto tensors = tensors_of(module);
  std::vector<std::vector<std::string>> names;
  for (const auto& tensor : tensors) {
    names.push_back(tensor.names);
  }
  const auto matched = match_keys(stored, names, options.key_map);
  TORCH_CHECK_VALUE(
      !options.strict || (matched.missing.empty() && matched.unexpected.empty()), "[load_pretrained] ", folder,
      ": the model and the folder must have the same names, but the folder lacks ", listed(matched.missing),
      ", and the model lacks ", listed(matched.unexpected), ". Give a key_map, or load without strict.");
  std::map<std::string, at::Tensor> wanted;
  for (const auto& tensor : tensors) {
    if (matched.stored.tensors.contains(tensor.names[0])) {
      wanted.emplace(tensor.names[0], with_memory(tensor, options.device));
    }
  }
  load_tensors(matched.stored, wanted, options.load);
  return {matched.missing, matched.unexpected};
}

} // namespace weft::nn
