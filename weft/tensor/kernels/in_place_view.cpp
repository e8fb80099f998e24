#include "weft/tensor/kernels/kernels.h"

#include "weft/propagation/operator_schema.h"
#include "weft/tensor/impl/dtensor_impl.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace weft {

namespace {

/// The view operator with the same name without the underscore and the same arguments. Nothing if that operator returns
/// a copy (resize).
std::optional<c10::OperatorHandle> view_form(const c10::OperatorHandle& op) {
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto& arguments = op.schema().arguments();
  const auto base = op.operator_name().name.substr(0, op.operator_name().name.size() - 1);
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto candidate = name.name == base ? dispatcher.findSchema(name) : std::nullopt;
    if (!candidate || candidate->schema().arguments().size() != arguments.size() ||
        !OperatorSchema(candidate->schema()).is_view) {
      continue;
    }
    const auto& others = candidate->schema().arguments();
    const auto have_same_type = [](const auto& a, const auto& b) { return *a.type() == *b.type(); };
    if (std::equal(arguments.begin(), arguments.end(), others.begin(), have_same_type)) {
      return candidate;
    }
  }
  return std::nullopt;
}

void check_can_change(const char* op, const at::Tensor& self, bool has_view) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      has_view && is_dtensor(self), "[", op, "] cannot change ",
      is_dtensor(self) ? as_dtensor(self)->spec()->to_string() : "a plain tensor",
      " in place. Make a new distributed tensor with from_local or distribute_tensor.");
}

class InPlaceView final : public c10::OperatorKernel {
 public:
  explicit InPlaceView(const c10::OperatorHandle& op) : view_(view_form(op)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, torch::jit::Stack* stack) {
    const auto self = torch::jit::peek(*stack, 0, op.schema().arguments().size()).toTensor();
    check_can_change(op.schema().name().c_str(), self, view_.has_value());
    const auto& impl = *as_dtensor(self);
    TORCH_CHECK_VALUE(
        !impl.is_copy_of_base(), "[", op.schema().name(), "] argument 'self' (", *impl.spec(),
        ") is a view that had to be redistributed, so that writing to it would not change the tensor it was taken of. "
        "Redistribute that tensor first, clone the view, or use the operator without the underscore.");
    const bool is_sole = !self.is_meta() && impl.local().storage().use_count() == 1;
    view_->callBoxed(stack);
    auto view = stack->back().toTensor();
    if (is_sole && as_dtensor(view)->is_copy_of_base()) {
      // A view that had to be redistributed goes out of date when the tensor it was taken of changes. Here that tensor
      // becomes the view, and no other one has its memory.
      view = make_dtensor_like(*as_dtensor(view), at::Tensor(as_dtensor(view)->local()));
    }
    self.unsafeGetTensorImpl()->shallow_copy_from(view.getIntrusivePtr());
    stack->back() = self;
  }

 private:
  std::optional<c10::OperatorHandle> view_;
};

/// Makes a tensor share the memory of another one, as `tensor.data = source` does.
at::Tensor& set_to_tensor(at::Tensor& self, const at::Tensor& source) {
  TORCH_CHECK_TYPE(
      is_dtensor(self) && is_dtensor(source), "[aten::set_] two distributed tensors are required, but got ",
      is_dtensor(self) ? "a plain" : "a distributed", " source for ", is_dtensor(self) ? "a distributed" : "a plain",
      " tensor. Distribute the plain one with distribute_tensor or from_local.");
  TORCH_CHECK_TYPE(
      self.scalar_type() == source.scalar_type(), "[aten::set_] a source of dtype ", self.scalar_type(),
      " is required, but got ", *as_dtensor(source)->spec(), ". Convert it.");
  self.unsafeGetTensorImpl()->shallow_copy_from(source.getIntrusivePtr());
  return self;
}

/// Functions of torch resize their out= argument also where it has the sizes: torch.randn(4, out=x).
const at::Tensor& resize(
    const at::Tensor& self,
    c10::IntArrayRef sizes,
    std::optional<at::MemoryFormat> memory_format) {
  const bool stays = self.sizes() == sizes && (!memory_format || self.suggest_memory_format() == *memory_format);
  check_can_change("aten::resize_", self, stays);
  return self;
}

const at::Tensor& resize_as(
    const at::Tensor& self,
    const at::Tensor& other,
    std::optional<at::MemoryFormat> memory_format) {
  const bool stays = self.sizes() == other.sizes() && !memory_format;
  check_can_change("aten::resize_as_", self, stays);
  return self;
}

} // namespace

void register_in_place_views(torch::Library& library) {
  library.impl("set_.source_Tensor", TORCH_FN(set_to_tensor));
  library.impl("resize_", TORCH_FN(resize));
  library.impl("resize_as_", TORCH_FN(resize_as));
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (!op || !op->hasSchema() || !name.name.starts_with("aten::") || !name.name.ends_with('_') ||
        !op->hasTag(at::Tag::inplace_view) || op->hasKernelForDispatchKey(kDTensorKey) ||
        op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) {
      continue;
    }
    library.impl(
        c10::toString(name).c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<InPlaceView>(*op)));
  }
}

} // namespace weft
