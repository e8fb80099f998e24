#include "weft/nn/materialize.h"

#include "weft/nn/registered_tensors.h"
#include "weft/nn/replace_parameters.h"
#include "weft/nn/reset_parameters.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/random/initialization_scope.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty_like.h>

#include <map>
#include <set>
#include <vector>

namespace weft::nn {

namespace {

using torch::nn::Module;

/// A tensor that was on meta and has memory now.
struct Made {
  std::string name;
  at::Tensor tensor;
};

class Materializer {
 public:
  Materializer(const MaterializeOptions& options, at::Generator generator)
      : options_(options), generator_(std::move(generator)) {}

  void run(Module& root) {
    make_all(root, "");
    const InitializationScope scope(std::move(generator_));
    const c10::NoGradGuard no_grad;
    initialize(root);
    check_written(scope);
  }

 private:
  void make_all(Module& module, const std::string& prefix) {
    if (!seen_.insert(&module).second) {
      return;
    }
    for (auto* tensors : {&registered_parameters(module), &registered_buffers(module)}) {
      for (const auto& name : tensors->keys()) {
        make(module, name, (*tensors)[name], prefix);
      }
    }
    for (const auto& child : module.named_children()) {
      make_all(**child, prefix + child.key() + ".");
    }
  }

  void make(Module& owner, const std::string& name, const at::Tensor& tensor, const std::string& prefix) {
    if (!tensor.defined() || !tensor.is_meta()) {
      return;
    }
    const auto path = prefix + name + " of " + owner.name();
    if (is_dtensor(tensor)) {
      give_memory(tensor);
      note_made(path, tensor);
      return;
    }
    auto& twin = twins_[tensor.unsafeGetTensorImpl()];
    if (!twin.defined()) {
      twin = at::empty_like(tensor, tensor.options().device(options_.device));
      note_made(path, twin);
    }
    replaced_.push_back(tensor); // keeps its address from being reused
    replace_parameter(owner, name, twin);
  }

  void note_made(const std::string& path, const at::Tensor& tensor) {
    made_.push_back({path, tensor});
    made_impls_.insert(tensor.unsafeGetTensorImpl());
  }

  /// Whether the module, with its children, has tensors and none of them was on meta: these must not be changed.
  bool has_values(const Module& module) const {
    auto tensors = module.parameters();
    for (auto& buffer : module.buffers()) {
      tensors.push_back(std::move(buffer));
    }
    return !tensors.empty() && std::none_of(tensors.begin(), tensors.end(), [&](const at::Tensor& tensor) {
      return made_impls_.contains(tensor.unsafeGetTensorImpl());
    });
  }

  void initialize(Module& module) {
    if (!seen_.erase(&module) || has_values(module)) {
      return;
    }
    for (const auto& child : module.children()) {
      initialize(*child);
    }
    if (!options_.init_fn || !options_.init_fn(module)) {
      reset_parameters(module);
    }
  }

  void check_written(const InitializationScope& scope) const {
    std::string missing;
    for (const auto& [name, tensor] : made_) {
      if (!scope.has_written(tensor)) {
        missing += (missing.empty() ? "" : ", ") + name;
      }
    }
    TORCH_CHECK_VALUE(
        missing.empty(), "[materialize] every tensor must be given its values, but nothing was written to ", missing,
        ". Derive the module from weft::nn::Resettable, or give an init_fn that does it.");
  }

  const MaterializeOptions& options_;
  at::Generator generator_;
  std::set<const Module*> seen_;
  std::map<const c10::TensorImpl*, at::Tensor> twins_;
  std::vector<at::Tensor> replaced_;
  std::vector<Made> made_;
  std::set<const c10::TensorImpl*> made_impls_;
};

} // namespace

void give_memory(const at::Tensor& tensor) {
  const auto& impl = checked_dtensor("give_memory", tensor);
  const auto& local = impl.local();
  const auto device = c10::Device(impl.spec()->mesh().device_type());
  const c10::NoGradGuard no_grad;
  tensor.set_data(make_dtensor(at::empty_like(local, local.options().device(device)), impl.spec()));
}

void materialize(Module& module, uint64_t seed, const MaterializeOptions& options) {
  materialize(module, at::make_generator<at::CPUGeneratorImpl>(seed), options);
}

void materialize(Module& module, at::Generator generator, const MaterializeOptions& options) {
  Materializer(options, std::move(generator)).run(module);
}

} // namespace weft::nn
