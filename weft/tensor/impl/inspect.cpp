#include "weft/tensor/impl/inspect.h"

namespace weft {

namespace {

/// A nested tensor has no sizes to print.
std::string kind_of(const at::Tensor& tensor) {
  return !tensor.defined() ? std::string("an undefined one")
      : tensor.is_nested() ? std::string("a plain one that is nested")
                           : c10::str("a plain one of shape ", tensor.sizes());
}

} // namespace

DTensorImpl& checked_dtensor(const char* where, const at::Tensor& tensor) {
  auto* impl = as_dtensor(tensor);
  TORCH_CHECK_TYPE(
      impl != nullptr, "[", where, "] a distributed tensor is required, but got ", kind_of(tensor),
      ". Make one with from_local or distribute_tensor.");
  return *impl;
}

DTensorImpl& checked_values(const char* where, const at::Tensor& tensor) {
  auto& impl = checked_dtensor(where, tensor);
  TORCH_CHECK_VALUE(!impl.is_stale(), "[", where, "] ", *impl.spec(), impl.why_stale());
  return impl;
}

const SpecPtr& spec_of(const at::Tensor& tensor) {
  return checked_dtensor("spec_of", tensor).spec();
}

const DeviceMesh& mesh_of(const at::Tensor& tensor) {
  return checked_dtensor("mesh_of", tensor).spec()->mesh();
}

c10::ArrayRef<Placement> placements(const at::Tensor& tensor) {
  return checked_dtensor("placements", tensor).spec()->placements();
}

LocalBlock local_shape_and_offset(const at::Tensor& tensor) {
  return checked_dtensor("local_shape_and_offset", tensor).spec()->local_shape_and_offset();
}

LocalBlock local_shape_and_offset(c10::IntArrayRef sizes, const DeviceMesh& mesh, const Layout& layout) {
  // The dtype does not matter for shapes and offsets.
  return TensorSpec::make(mesh, layout, sizes, c10::kFloat)->local_shape_and_offset();
}

} // namespace weft
