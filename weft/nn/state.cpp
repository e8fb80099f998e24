#include "weft/nn/state.h"

#include "weft/checkpoint/manifest.h"
#include "weft/nn/optimizer_fields.h"
#include "weft/tensor/random/random_state.h"

#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

namespace weft::nn {

namespace {

using torch::optim::Optimizer;
using torch::optim::OptimizerParamState;

constexpr const char* kModel = "model.";
constexpr const char* kOptimizer = "optimizer.";
constexpr const char* kRandom = "random";

at::Tensor* tensor_in(const OptimizerField& field) {
  const auto* const tensor = std::get_if<at::Tensor*>(&field.value);
  return tensor == nullptr ? nullptr : *tensor;
}

c10::IValue value_in(const OptimizerField& field) {
  return std::visit([](const auto* value) { return c10::IValue(*value); }, field.value);
}

void set_value(const OptimizerField& field, const c10::IValue& value) {
  std::visit([&](auto* own) { *own = value.to<std::decay_t<decltype(*own)>>(); }, field.value);
}

/// The parameters of an optimizer, with their names in a module. What is tied has the first of its names.
std::vector<std::pair<std::string, at::Tensor>> named_parameters(
    Optimizer& optimizer,
    const torch::nn::Module& module) {
  std::map<const void*, std::string> names;
  for (const auto& parameter : module.named_parameters()) {
    names.emplace(parameter.value().unsafeGetTensorImpl(), parameter.key());
  }
  std::vector<std::pair<std::string, at::Tensor>> result;
  for (const auto& group : optimizer.param_groups()) {
    for (const auto& parameter : group.params()) {
      const auto found = names.find(parameter.unsafeGetTensorImpl());
      TORCH_CHECK_VALUE(
          found != names.end(),
          "[state_of] every parameter of the optimizer must be one of the module, but one of shape ", parameter.sizes(),
          " is not. Make the optimizer after the module is distributed.");
      result.emplace_back(found->second, parameter);
    }
  }
  return result;
}

std::string group_name(size_t index) {
  return c10::str("groups.", index, ".");
}

/// The options of an optimizer, and its class.
State options_of(Optimizer& optimizer) {
  const auto& fields = optimizer_fields(optimizer);
  State state = {{"class", fields.class_name}};
  for (size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    for (const auto& field : fields.of_options(optimizer.param_groups()[i].options())) {
      state.emplace(group_name(i) + field.name, value_in(field));
    }
  }
  return state;
}

void add_all(State& state, const std::string& prefix, const State& more) {
  for (const auto& [name, value] : more) {
    TORCH_CHECK_VALUE(
        state.emplace(prefix + name, value).second, "[state_of] every name must be there once, but '", prefix, name,
        "' is there twice. Rename one of them.");
  }
}

State random_values() {
  const auto random = random_state();
  return {{kRandom, std::tuple(static_cast<int64_t>(random.seed), static_cast<int64_t>(random.calls))}};
}

/// What is to be read for an optimizer, in new states of its parameters.
class OptimizerLoader {
 public:
  OptimizerLoader(Optimizer& optimizer, const torch::nn::Module& module, const StoredTensors& stored)
      : optimizer_(optimizer), fields_(optimizer_fields(optimizer)), wanted_(options_of(optimizer)) {
    for (const auto& [name, parameter] : named_parameters(optimizer, module)) {
      add_parameter(name, parameter, stored);
    }
  }

  const State& wanted() const {
    return wanted_;
  }

  /// `loaded` has the values under the names of `wanted`, after a prefix.
  void finish(const State& loaded) {
    const auto value = [&](const std::string& name) { return loaded.at(kOptimizer + name); };
    for (size_t i = 0; i < optimizer_.param_groups().size(); ++i) {
      for (const auto& field : fields_.of_options(optimizer_.param_groups()[i].options())) {
        set_value(field, value(group_name(i) + field.name));
      }
    }
    optimizer_.state().clear();
    for (auto& [name, parameter, state] : states_) {
      for (const auto& field : fields_.of_parameter(*state)) {
        if (tensor_in(field) == nullptr) {
          set_value(field, value(name + "." + field.name));
        }
      }
      optimizer_.state()[parameter] = std::move(state);
    }
  }

 private:
  struct New {
    std::string name;
    void* parameter;
    std::unique_ptr<OptimizerParamState> state;
  };

  void add_parameter(const std::string& name, const at::Tensor& parameter, const StoredTensors& stored) {
    auto state = fields_.make();
    bool is_stored = false;
    for (const auto& field : fields_.of_parameter(*state)) {
      auto* const tensor = tensor_in(field);
      const auto field_name = name + "." + field.name;
      const auto found = stored.tensors.find(kOptimizer + field_name);
      if (tensor != nullptr && found != stored.tensors.end()) {
        *tensor = at::empty_like(parameter, parameter.options().dtype(found->second.dtype));
        wanted_.emplace(field_name, *tensor);
        is_stored = true;
      }
    }
    if (!is_stored) {
      return; // it had no gradient yet
    }
    for (const auto& field : fields_.of_parameter(*state)) {
      if (tensor_in(field) == nullptr) {
        wanted_.emplace(name + "." + field.name, value_in(field));
      }
    }
    states_.push_back({name, parameter.unsafeGetTensorImpl(), std::move(state)});
  }

  Optimizer& optimizer_;
  const OptimizerFields& fields_;
  State wanted_;
  std::vector<New> states_;
};

/// Whether the checkpoint has what neither the module nor the optimizer have.
void check_all_is_wanted(const StoredTensors& stored, const State& wanted) {
  const auto check = [&](const std::string& name) {
    TORCH_CHECK_VALUE(
        wanted.contains(name) || !(name.starts_with(kModel) || name.starts_with(kOptimizer)), "[load_training_state] ",
        stored.folder, ": what is stored must be of the module and its optimizer, but they lack '", name,
        "'. Is it the checkpoint of another model?");
  };
  for (const auto& [name, tensor] : stored.tensors) {
    check(name);
  }
  for (const auto& [name, text] : stored.values) {
    check(name);
  }
}

} // namespace

State state_of(const torch::nn::Module& module) {
  State state;
  for (const auto& tensors : {module.named_parameters(), module.named_buffers()}) {
    for (const auto& tensor : tensors) {
      if (tensor.value().defined()) {
        state.emplace(tensor.key(), tensor.value());
      }
    }
  }
  return state;
}

State state_of(Optimizer& optimizer, const torch::nn::Module& module) {
  const auto& fields = optimizer_fields(optimizer);
  auto state = options_of(optimizer);
  for (const auto& [name, parameter] : named_parameters(optimizer, module)) {
    const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
    if (found == optimizer.state().end()) {
      continue;
    }
    for (const auto& field : fields.of_parameter(*found->second)) {
      const auto* const tensor = tensor_in(field);
      if (tensor == nullptr || tensor->defined()) {
        state.emplace(name + "." + field.name, value_in(field));
      }
    }
  }
  return state;
}

State training_state(const torch::nn::Module& module, Optimizer& optimizer, const State& values) {
  State state = values;
  add_all(state, kModel, state_of(module));
  add_all(state, kOptimizer, state_of(optimizer, module));
  add_all(state, "", random_values());
  return state;
}

void load_training_state(
    torch::nn::Module& module,
    Optimizer& optimizer,
    State& values,
    const std::string& folder,
    const LoadOptions& options) {
  const c10::NoGradGuard no_grad;
  const auto stored = load_manifest(folder, "load_training_state").stored;
  const auto class_name = optimizer_fields(optimizer).class_name;
  const auto saved_class = stored.values.find(std::string(kOptimizer) + "class");
  TORCH_CHECK_VALUE(
      saved_class != stored.values.end() && saved_class->second == c10::str('"', class_name, '"'),
      "[load_training_state] ", folder, ": the state of the optimizer ", class_name, " is required, but it has ",
      saved_class == stored.values.end() ? "none that training_state saved" : "that of " + saved_class->second, ".");
  OptimizerLoader loader(optimizer, module, stored);
  State all = values;
  add_all(all, kModel, state_of(module));
  add_all(all, kOptimizer, loader.wanted());
  add_all(all, "", random_values());
  check_all_is_wanted(stored, all);
  load(all, folder, options);
  loader.finish(all);
  const auto random = all.at(kRandom).to<std::tuple<int64_t, int64_t>>();
  set_random_state({static_cast<uint64_t>(std::get<0>(random)), static_cast<uint64_t>(std::get<1>(random))});
  for (auto& [name, value] : values) {
    value = all.at(name);
  }
}

} // namespace weft::nn
