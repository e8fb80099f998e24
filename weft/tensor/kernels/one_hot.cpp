#include "weft/tensor/kernels/kernels.h"

#include "weft/core/layout_algebra.h"
#include "weft/core/traced_tensor.h"
#include "weft/tensor/boundary/implicit_move.h"
#include "weft/tensor/impl/dtensor_impl.h"

#include <ATen/ATen.h>

namespace weft {

namespace {

/// The classes 0, 1, ... as a replicated tensor.
at::Tensor classes_for(const DTensorImpl& index, int64_t count) {
  const auto& mesh = index.spec()->mesh();
  const auto classes = at::arange(count, at::TensorOptions().dtype(at::kLong).device(index.device()));
  return make_dtensor(classes, TensorSpec::make(mesh, replicated(mesh), classes.sizes(), classes.strides(), at::kLong));
}

/// Raises on every rank of the mesh for a class that is out of range. A compiler that records the call has no values to look at. On
/// a CUDA device, where reading a value would wait for the device, the device stops instead, as it does for a plain tensor. A step that
/// is replayed looks at the values of every replay.
void check_range(const at::Tensor& index, int64_t classes) {
  const auto& impl = *as_dtensor(index);
  if (index.numel() == 0 || index.is_meta() || is_traced(impl.local()) || !impl.spec()->mesh().is_member()) {
    return;
  }
  if (!index.is_cpu() || is_recorded_by_operators(impl.local())) {
    const auto& local = impl.local();
    at::_assert_async(
        local.ge(0).logical_and_(local.lt(classes)).all(),
        c10::str(
            "[aten::one_hot] classes from 0 to ", classes - 1, " are required, but got others in ", *impl.spec(),
            ". Give a larger num_classes."));
    return;
  }
  const auto least = index.min().item<int64_t>(), greatest = index.max().item<int64_t>();
  TORCH_CHECK_INDEX(
      least >= 0 && greatest < classes, "[aten::one_hot] classes from 0 to ", classes - 1, " are required, but got ",
      least < 0 ? least : greatest, " in ", *impl.spec(), ". Give a larger num_classes.");
}

at::Tensor one_hot(const at::Tensor& index, int64_t num_classes) {
  TORCH_CHECK_TYPE(
      index.scalar_type() == at::kLong, "[aten::one_hot] a tensor of int64 is required, but got ",
      *as_dtensor(index)->spec(), ". Convert it.");
  TORCH_CHECK_VALUE(
      num_classes >= (index.numel() == 0 ? 1 : -1) && num_classes != 0, "[aten::one_hot] ",
      index.numel() == 0 ? "a number of classes is required for an empty tensor"
                         : "a positive number of classes is required, or -1 for the largest class plus one",
      ", but got ", num_classes, " for ", *as_dtensor(index)->spec(), ". Give num_classes.");
  const auto count = num_classes == -1 ? index.max().item<int64_t>() + 1 : num_classes;
  check_range(index, count);
  return index.unsqueeze(-1).eq(classes_for(*as_dtensor(index), count)).to(at::kLong);
}

} // namespace

void register_one_hot(torch::Library& library) {
  library.impl("one_hot", TORCH_FN(one_hot));
}

} // namespace weft
