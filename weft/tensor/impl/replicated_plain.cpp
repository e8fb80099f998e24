#include "weft/tensor/impl/replicated_plain.h"

#include "weft/tensor/impl/in_backward.h"
#include "weft/tensor/impl/parallel_forward.h"
#include "weft/tensor/impl/scopes.h"

#include <algorithm>

namespace weft {

namespace {

/// Whether the tensor is one number, of any ndim and perhaps expanded. Forward mode AD makes expanded zeros for
/// operands without a tangent.
bool is_number(const at::Tensor& tensor) {
  const auto strides = tensor.strides();
  return tensor.numel() == 1 || std::all_of(strides.begin(), strides.end(), [](int64_t stride) { return stride == 0; });
}

/// Whether the program is of Python, which has never held this tensor.
bool is_unknown_to_python(const at::Tensor& tensor) {
  // Torch's Python registers these hooks when it is imported; asking for the interpreter without them would raise.
  static const bool has_python = !c10::impl::PyInterpreterHooksRegistry()->Keys().empty();
  return has_python && tensor.unsafeGetTensorImpl()->pyobj_slot()->load_pyobj() == nullptr;
}

constinit thread_local int64_t vmap_levels = 0;

} // namespace

bool counts_as_replicated(const at::Tensor& plain) {
  // In backward plain tensors come from derivative formulas, which make them from shapes alone, or were replicated in
  // forward.
  return is_number(plain) || ParallelForward::is_active() || Scopes::of_thread().replicate_plain || in_backward() ||
      (vmap_levels > 0 && is_unknown_to_python(plain));
}

void enter_vmap() {
  ++vmap_levels;
}

void leave_vmap() {
  --vmap_levels;
}

bool is_made_by_python_index(const at::Tensor& index) {
  const bool is_of_indices = index.scalar_type() == at::kLong || index.scalar_type() == at::kBool;
  return is_of_indices && is_unknown_to_python(index);
}

} // namespace weft
