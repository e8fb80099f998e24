#include "weft/fully_sharded/leaf_hooks.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <string_view>
#include <typeinfo>

namespace weft {

namespace {

using torch::autograd::FunctionPreHook;
using torch::autograd::variable_list;

/// Calls another hook where there is a gradient.
class HookOfGradient : public FunctionPreHook {
 public:
  explicit HookOfGradient(std::unique_ptr<FunctionPreHook> hook) : hook_(std::move(hook)) {}

  variable_list operator()(const variable_list& gradients) override {
    return gradients[0].defined() ? (*hook_)(gradients) : gradients;
  }

 private:
  std::unique_ptr<FunctionPreHook> hook_;
};

/// Whether a hook stands for those that users register from Python or C++. torch does not export the types.
bool is_of_users(const torch::autograd::AutogradMeta& meta, const FunctionPreHook& hook) {
  const std::string_view type = typeid(hook).name();
  const bool is_list = type.find("CppFunctionTensorPreHook") != std::string_view::npos;
  return is_list ? meta.cpp_hooks_list_ != nullptr && !meta.cpp_hooks_list_->empty()
                 : type.find("PyFunctionTensorPreHook") != std::string_view::npos;
}

} // namespace

void skip_hooks_without_gradient(const at::Tensor& leaf) {
  auto* const meta = torch::autograd::impl::get_autograd_meta(leaf);
  if (meta == nullptr) {
    return;
  }
  for (auto& hook : meta->hooks_) {
    if (is_of_users(*meta, *hook)) {
      hook = std::make_unique<HookOfGradient>(std::move(hook));
    }
  }
}

} // namespace weft
