#include "weft/tensor/boundary/stride_order.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

namespace weft {

std::vector<int64_t> dims_by_stride(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  std::vector<int64_t> dims(sizes.size());
  std::iota(dims.begin(), dims.end(), 0);
  std::stable_sort(dims.begin(), dims.end(), [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  return dims;
}

c10::DimVector dense_strides(c10::IntArrayRef sizes, const std::vector<int64_t>& order) {
  c10::DimVector strides(sizes.size());
  int64_t next = 1;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    strides[*it] = next;
    next *= std::max<int64_t>(sizes[*it], 1);
  }
  return strides;
}

bool same_strides(c10::IntArrayRef sizes, c10::IntArrayRef a, c10::IntArrayRef b) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) {
    return true;
  }
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] > 1 && a[d] != b[d]) {
      return false;
    }
  }
  return true;
}

namespace {

std::vector<int64_t> contiguous_order(size_t ndim) {
  std::vector<int64_t> order(ndim);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

} // namespace

std::vector<int64_t> order_in_memory(const TensorSpec& spec) {
  const auto order = dims_by_stride(spec.sizes(), spec.strides());
  const bool is_dense = same_strides(spec.sizes(), spec.strides(), dense_strides(spec.sizes(), order));
  return is_dense && !spec.is_contiguous() ? order : contiguous_order(spec.sizes().size());
}

namespace {

/// An empty shard of a channels-last tensor. torch asks for strides of its own, in which sizes of 0 count, before it calls
/// an empty tensor a channels-last one.
at::Tensor empty_in_format(const at::Tensor& local, const TensorSpec& spec) {
  const auto sizes = spec.sizes();
  const auto strides = spec.strides();
  if (c10::is_channels_last_strides_2d(sizes, strides)) {
    return local.contiguous(c10::MemoryFormat::ChannelsLast);
  }
  return c10::is_channels_last_strides_3d(sizes, strides) ? local.contiguous(c10::MemoryFormat::ChannelsLast3d) : local;
}

} // namespace

c10::DimVector strides_as_in(const at::Tensor& like, c10::IntArrayRef sizes) {
  if (like.is_contiguous() || !like.is_non_overlapping_and_dense()) {
    return dense_strides(sizes, contiguous_order(sizes.size()));
  }
  return dense_strides(sizes, dims_by_stride(like.sizes(), like.strides()));
}

at::Tensor in_stride_order(at::Tensor local, const TensorSpec& spec) {
  const bool is_outside = local.dim() != spec.dim(); // on a rank that is not in the mesh it holds nothing
  if (is_outside || (local.is_contiguous() && spec.is_contiguous())) {
    return local;
  }
  if (local.numel() == 0) {
    return empty_in_format(local, spec);
  }
  const auto strides = dense_strides(local.sizes(), dims_by_stride(spec.sizes(), spec.strides()));
  if (same_strides(local.sizes(), local.strides(), strides)) {
    return local;
  }
  return at::empty_strided(local.sizes(), strides, local.options()).copy_(local);
}

} // namespace weft
