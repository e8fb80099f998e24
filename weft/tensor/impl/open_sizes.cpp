#include "weft/tensor/impl/open_sizes.h"

namespace weft {

namespace {

using Generalise = std::function<at::Tensor(const at::Tensor&, const TensorFunction&)>;

/// Never freed: what it refers to belongs to Python's interpreter, which may be gone by then.
Generalise& generalise() {
  static auto* function = new Generalise();
  return *function;
}

} // namespace

void generalise_by(Generalise function) {
  generalise() = std::move(function);
}

at::Tensor over_open_sizes(const at::Tensor& tensor, const TensorFunction& function) {
  TORCH_INTERNAL_ASSERT(
      generalise(), "open sizes come from tracers of Python, whose package says what to do with them");
  return generalise()(tensor, function);
}

} // namespace weft
