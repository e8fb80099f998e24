#include "weft/core/layout_algebra.h"
#include "weft/core/shard_math.h"
#include "weft/tensor/boundary/stride_order.h"
#include "weft/tensor/decompositions/decompositions.h"
#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/impl/in_backward.h"

#include <ATen/ATen.h>

#include <set>

namespace weft {

namespace {

bool always(const OpCall& /*call*/, c10::ArrayRef<SpecPtr> /*operands*/) {
  return true;
}

/// The strides are those of the global tensor, so that they are no strides of a local tensor: a view has the same
/// result.
at::Tensor reshape_alias_as_view(const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef /*stride*/) {
  return self.view(size);
}

/// Squeezes the dims whose global size is 1, because further dims may have size 1 in a local tensor.
at::Tensor squeeze_named(const at::Tensor& self) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (self.size(d) == 1) {
      dims.push_back(d);
    }
  }
  return self.squeeze(dims);
}

at::Tensor squeeze_one_named(const at::Tensor& self, int64_t dim) {
  return self.squeeze(std::vector<int64_t>{dim});
}

/// Whether a tensor is sharded by blocks along the dim that is split, and is split between two blocks each time: then each result is a
/// slice that takes blocks, without communication.
bool splits_between_blocks(const OpCall& call, c10::ArrayRef<SpecPtr> operands) {
  const auto dim = call.wrapped_dim("dim", call.operand(0).dim());
  const auto is_split = [&](const Placement& placement) {
    if (!placement.is_shard(dim) || !placement.is_strided()) {
      return false;
    }
    std::set<int64_t> ends;
    for (const auto& block : blocks(call.operand(0).sizes[dim], placement)) {
      ends.insert(block.begin + block.length);
    }
    int64_t end = 0;
    for (const auto size : call.integers("split_sizes")) {
      end += size;
      if (!ends.contains(end)) {
        return false;
      }
    }
    return true;
  };
  const auto placements = operands[0]->placements();
  return std::any_of(placements.begin(), placements.end(), is_split);
}

std::vector<at::Tensor> split_as_slices(const at::Tensor& self, c10::SymIntArrayRef split_sizes, int64_t dim) {
  std::vector<at::Tensor> result;
  int64_t begin = 0;
  for (const auto& size : split_sizes) {
    const auto end = begin + size.expect_int();
    result.push_back(self.slice(dim, begin, end));
    begin = end;
  }
  return result;
}

/// Whether the strides are those of a tensor without gaps, its dims in any order, and the size is that of `self`. Then
/// new_empty with the dims in that order gives the same tensor, with the layout of `self`.
bool is_dense_alike(const OpCall& call, c10::ArrayRef<SpecPtr> /*operands*/) {
  const auto size = call.integers("size");
  const auto stride = call.integers("stride");
  return call.operand(0).sizes == c10::IntArrayRef(size) &&
      same_strides(size, stride, dense_strides(size, dims_by_stride(size, stride)));
}

at::Tensor new_empty_of_size(
    const at::Tensor& self,
    c10::IntArrayRef size,
    c10::IntArrayRef stride,
    std::optional<at::ScalarType> dtype,
    std::optional<at::Layout> layout,
    std::optional<at::Device> device,
    std::optional<bool> pin_memory) {
  if (!dtype && in_backward()) {
    // The gradient of a tensor that was written through a view: autograd copies the full gradient and then writes to a
    // view of the copy, which must need no redistribution. (For a gradient that is accumulated, the call has a dtype.)
    const auto& mesh = as_dtensor(self)->spec()->mesh();
    const auto spec = TensorSpec::make(mesh, replicated(mesh), size, stride, self.scalar_type());
    return make_dtensor(at::empty_strided(size, stride, as_dtensor(self)->local().options()), spec);
  }
  const auto order = dims_by_stride(size, stride);
  if (std::is_sorted(order.begin(), order.end())) {
    return self.new_empty(size, dtype, layout, device, pin_memory);
  }
  const auto in_order = self.permute(order);
  std::vector<int64_t> places(order.size());
  for (size_t d = 0; d < order.size(); ++d) {
    places[order[d]] = static_cast<int64_t>(d);
  }
  return in_order.new_empty(in_order.sizes(), dtype, layout, device, pin_memory).permute(places);
}

} // namespace

void add_view_decompositions(Decompositions& all) {
  using c10::KernelFunction;
  all.emplace(
      "aten::_reshape_alias",
      Decomposition{&always, KernelFunction::makeFromUnboxedFunction(TORCH_FN(reshape_alias_as_view))});
  all.emplace(
      "aten::split_with_sizes",
      Decomposition{&splits_between_blocks, KernelFunction::makeFromUnboxedFunction(TORCH_FN(split_as_slices))});
  all.emplace(
      "aten::squeeze", Decomposition{&always, KernelFunction::makeFromUnboxedFunction(TORCH_FN(squeeze_named))});
  all.emplace(
      "aten::squeeze.dim",
      Decomposition{&always, KernelFunction::makeFromUnboxedFunction(TORCH_FN(squeeze_one_named))});
  all.emplace(
      "aten::new_empty_strided",
      Decomposition{&is_dense_alike, KernelFunction::makeFromUnboxedFunction(TORCH_FN(new_empty_of_size))});
}

} // namespace weft
