#include "weft/tensor/in_place_view.h"

#include "weft/tensor/dtensor_impl.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace weft {

namespace {

/// The operator that gives as a view what this one does in place.
std::optional<c10::OperatorHandle> view_form(c10::OperatorName name) {
  name.name.pop_back();
  return c10::Dispatcher::singleton().findSchema(name);
}

class InPlaceView final : public c10::OperatorKernel {
 public:
  explicit InPlaceView(const c10::OperatorHandle& op) : view_(view_form(op.operator_name())) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, torch::jit::Stack* stack) {
    const auto self = torch::jit::peek(*stack, 0, op.schema().arguments().size()).toTensor();
    TORCH_CHECK_NOT_IMPLEMENTED(
        view_.has_value() && is_dtensor(self), "[", op.schema().name(), "] cannot change ",
        is_dtensor(self) ? as_dtensor(self)->spec()->to_string() : "a plain tensor",
        " in place. Make a new distributed tensor with from_local or distribute_tensor.");
    view_->callBoxed(stack);
    self.unsafeGetTensorImpl()->shallow_copy_from(stack->back().toTensor().getIntrusivePtr());
    stack->back() = self;
  }

 private:
  std::optional<c10::OperatorHandle> view_;
};

} // namespace

void register_in_place_views(torch::Library& library) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (!op || !op->hasSchema() || !name.name.starts_with("aten::") || !name.name.ends_with('_') ||
        !op->hasTag(at::Tag::inplace_view) ||
        op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) {
      continue;
    }
    const auto full = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    library.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<InPlaceView>(*op)));
  }
}

} // namespace weft
