#include "weft/tensor/kernels/kernels.h"

#include "weft/core/layout_algebra.h"
#include "weft/tensor/boundary/implicit_move.h"
#include "weft/tensor/impl/dtensor_impl.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <numeric>

namespace weft {

namespace {

/// Finds the slices, selections, permutations, joined and split dims that lead from a tensor to the view with the given
/// sizes and strides.
class ViewFinder {
 public:
  ViewFinder(const at::Tensor& self, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset)
      : view_(self), sizes_(sizes), strides_(strides), offset_(offset - self.storage_offset()) {}

  /// Nothing if no such sequence of view operators exists.
  std::optional<at::Tensor> find() {
    if (offset_ < 0 || sizes_.size() != strides_.size()) {
      return std::nullopt;
    }
    for (size_t i = 0; i < sizes_.size(); ++i) {
      for (size_t k = 0; k < i; ++k) {
        if (is_real(i) && is_real(k) && strides_[i] == strides_[k]) {
          return std::nullopt; // windows that overlap
        }
      }
      if (is_real(i) && !(split_for(strides_[i]) && join_for(sizes_[i], strides_[i]))) {
        return std::nullopt;
      }
    }
    return pick() ? arranged() : std::nullopt;
  }

 private:
  /// Dims of one element and expanded dims are inserted at the end, so that the search skips them.
  bool is_real(size_t i) const {
    return sizes_[i] > 1 && strides_[i] != 0;
  }

  /// The dim of the view that has this stride; -1 if there is none.
  int64_t dim_of_stride(int64_t stride) const {
    for (int64_t d = 0; d < view_.dim(); ++d) {
      if (view_.stride(d) == stride && view_.size(d) > 1) {
        return d;
      }
    }
    return -1;
  }

  /// Makes a dim with this stride by splitting the dim whose stride divides it.
  bool split_for(int64_t stride) {
    if (dim_of_stride(stride) >= 0) {
      return true;
    }
    for (int64_t d = 0; d < view_.dim(); ++d) {
      const auto inner = view_.stride(d) == 0 ? 0 : stride / view_.stride(d);
      if (inner > 1 && inner < view_.size(d) && stride % view_.stride(d) == 0 && view_.size(d) % inner == 0) {
        view_ = view_.unflatten(d, {view_.size(d) / inner, inner});
        return true;
      }
    }
    return step_for(stride);
  }

  /// Makes a dim with this stride by slicing one with a step, from the index at which the view begins.
  bool step_for(int64_t stride) {
    const auto starts = starts_of_dims();
    for (int64_t d = 0; d < view_.dim(); ++d) {
      const auto step = view_.stride(d) == 0 ? 0 : stride / view_.stride(d);
      if (step > 1 && step < view_.size(d) && stride % view_.stride(d) == 0) {
        offset_ -= starts[d] * view_.stride(d);
        view_ = view_.slice(d, starts[d], view_.size(d), step);
        return true;
      }
    }
    return false;
  }

  /// The index along every dim at which the view begins.
  std::vector<int64_t> starts_of_dims() const {
    std::vector<int64_t> by_stride(view_.dim());
    std::iota(by_stride.begin(), by_stride.end(), int64_t{0});
    std::sort(by_stride.begin(), by_stride.end(), [&](auto a, auto b) { return view_.stride(a) > view_.stride(b); });
    std::vector<int64_t> starts(view_.dim(), 0);
    auto rest = offset_;
    for (const auto d : by_stride) {
      starts[d] = view_.stride(d) == 0 ? 0 : std::min(rest / view_.stride(d), view_.size(d) - 1);
      rest -= starts[d] * view_.stride(d);
    }
    return starts;
  }

  /// Flattens the dim with this stride and the dims before it, until the result has at least this size.
  bool join_for(int64_t size, int64_t stride) {
    auto d = dim_of_stride(stride);
    while (d >= 0 && view_.size(d) < size) {
      if (d == 0 || view_.stride(d - 1) != view_.stride(d) * view_.size(d)) {
        return false;
      }
      view_ = view_.flatten(d - 1, d);
      --d;
    }
    return d >= 0;
  }

  /// Narrows every dim to the indices of the view, and removes by select() the dims that the view does not have.
  bool pick() {
    const auto starts = starts_of_dims();
    for (int64_t d = 0; d < view_.dim(); ++d) {
      offset_ -= starts[d] * view_.stride(d);
    }
    if (offset_ != 0) {
      return false;
    }
    for (auto d = view_.dim() - 1; d >= 0; --d) {
      const auto wanted = wanted_size(d);
      if (starts[d] + wanted > view_.size(d)) {
        return false;
      }
      if (wanted == 1) {
        view_ = view_.select(d, starts[d]);
      } else if (wanted != view_.size(d)) {
        view_ = view_.narrow(d, starts[d], wanted);
      }
    }
    return true;
  }

  int64_t wanted_size(int64_t d) const {
    for (size_t i = 0; i < sizes_.size(); ++i) {
      if (is_real(i) && view_.size(d) > 1 && strides_[i] == view_.stride(d)) {
        return sizes_[i];
      }
    }
    return 1;
  }

  std::optional<at::Tensor> arranged() {
    std::vector<int64_t> order;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      if (is_real(i)) {
        order.push_back(dim_of_stride(strides_[i]));
      }
    }
    const bool has_all = std::find(order.begin(), order.end(), -1) == order.end();
    if (!has_all || static_cast<int64_t>(order.size()) != view_.dim()) {
      return std::nullopt;
    }
    view_ = view_.permute(order);
    for (size_t i = 0; i < sizes_.size(); ++i) {
      if (!is_real(i)) {
        view_ = view_.unsqueeze(static_cast<int64_t>(i));
      }
    }
    return view_.sizes() == sizes_ ? view_ : view_.expand(sizes_);
  }

  at::Tensor view_;
  c10::IntArrayRef sizes_;
  c10::IntArrayRef strides_;
  int64_t offset_;
};

/// The number of storage elements from a view's first to its last element; 0 if it has none.
int64_t extent_of(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  int64_t extent = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) {
      return 0;
    }
    extent += (sizes[i] - 1) * strides[i];
  }
  return extent;
}

/// Any view, also with overlapping windows, of the replicated tensor. A tensor with another layout is gathered first,
/// and the view is one of this copy. Nothing if the view reaches beyond the tensor's own elements.
std::optional<at::Tensor> view_of_replicated(
    const at::Tensor& self,
    c10::IntArrayRef sizes,
    c10::IntArrayRef strides,
    int64_t offset) {
  const auto begin = offset - self.storage_offset();
  const auto extent = extent_of(sizes, strides);
  if (!self.is_non_overlapping_and_dense() || begin < 0 || (extent > 0 && begin + extent > self.numel())) {
    return std::nullopt;
  }
  const c10::NoGradGuard below_autograd;
  const auto& impl = *as_dtensor(self);
  const auto& mesh = impl.spec()->mesh();
  const auto gathered = move_implicitly("aten::as_strided", self, replicated(mesh));
  auto local = as_dtensor(gathered)->local();
  if (local.strides() != self.strides()) {
    local = at::empty_strided(self.sizes(), self.strides(), local.options()).copy_(local);
  }
  const auto spec = TensorSpec::make(mesh, replicated(mesh), sizes, strides, impl.spec()->dtype());
  auto view = make_dtensor(local.as_strided(sizes, strides, local.storage_offset() + begin), spec);
  as_dtensor(view)->become_view(impl, begin, /*is_copy=*/!local.is_alias_of(impl.local()));
  return view;
}

at::Tensor as_strided(
    const at::Tensor& self,
    c10::IntArrayRef sizes,
    c10::IntArrayRef strides,
    std::optional<int64_t> storage_offset) {
  const auto offset = storage_offset.value_or(self.storage_offset());
  if (self.sizes() == sizes && self.strides() == strides && offset == self.storage_offset()) {
    return self.alias();
  }
  auto found = ViewFinder(self, sizes, strides, offset).find();
  if (!found && self.is_contiguous()) {
    found = ViewFinder(self.flatten(), sizes, strides, offset).find(); // its dims cross those of the tensor
  }
  if (!found) {
    found = view_of_replicated(self, sizes, strides, offset);
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      found.has_value(), "[as_strided] a view of ", *as_dtensor(self)->spec(),
      " must stay within its own elements, but got sizes ", sizes, ", strides ", strides, " and offset ", offset,
      ". Take it of the tensor that this is a view of, or of full_tensor(t).");
  return *found;
}

} // namespace

void register_as_strided(torch::Library& library) {
  library.impl("as_strided", TORCH_FN(as_strided));
}

} // namespace weft
