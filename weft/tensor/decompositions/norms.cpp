#include "weft/core/layout_algebra.h"
#include "weft/redistribute/plan.h"
#include "weft/tensor/boundary/implicit_move.h"
#include "weft/tensor/decompositions/decompositions.h"
#include "weft/tensor/decompositions/reduced_dims.h"
#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/impl/move_observer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

namespace weft {

namespace {

/// Computes the global norm from the local norms: by the sum of their powers and its root, or by their maximum or
/// minimum.
struct NormMerge {
  double order;

  ReduceOp op() const {
    return !std::isinf(order) ? ReduceOp::Sum : order > 0 ? ReduceOp::Max : ReduceOp::Min;
  }
  bool has_root() const {
    return !std::isinf(order) && order != 0 && order != 1;
  }
  at::Tensor to_terms(const at::Tensor& norms) const {
    return has_root() ? norms.pow(order) : norms;
  }
  at::Tensor from_terms(const at::Tensor& terms) const {
    return has_root() ? terms.pow(1 / order) : terms;
  }
  /// The norm of a local tensor without elements.
  double of_nothing() const {
    return order < 0 ? std::numeric_limits<double>::infinity() : 0;
  }
};

/// The tensor with its partial values reduced, because a norm is not linear.
at::Tensor reduced(const at::Tensor& tensor) {
  const auto layout = without_partial(as_dtensor(tensor)->spec()->layout());
  return move_implicitly("aten::linalg_vector_norm", tensor, layout);
}

/// The shape with one element along the reduced dims.
std::vector<int64_t> kept_shape(c10::IntArrayRef sizes, c10::IntArrayRef dims) {
  auto shape = sizes.vec();
  for (const auto d : dims) {
    shape[d] = 1;
  }
  return shape;
}

/// The norm by operators on distributed tensors only, for programs that are recorded and for ranks that are not in the
/// mesh, which hold nothing to take a norm of.
at::Tensor norm_by_operators(
    const at::Tensor& self,
    double order,
    c10::IntArrayRef dims,
    bool keepdim,
    at::ScalarType dtype) {
  const auto values = self.to(accumulation_dtype(dtype)).abs();
  if (std::isinf(order)) {
    return (order > 0 ? values.amax(dims, keepdim) : values.amin(dims, keepdim)).to(dtype);
  }
  if (order == 0) {
    return values.ne(0).sum(dims, keepdim, accumulation_dtype(dtype)).to(dtype);
  }
  const NormMerge merge{order};
  return merge.from_terms(merge.to_terms(values).sum(dims, keepdim)).to(dtype);
}

at::Tensor vector_norm(
    const at::Tensor& self,
    const at::Scalar& order,
    at::OptionalIntArrayRef dim,
    bool keepdim,
    std::optional<at::ScalarType> dtype) {
  const auto dims = wrapped_dims(dim, self.dim());
  const NormMerge merge{order.toDouble()};
  // Raises on every rank if the arguments are invalid, before any rank communicates.
  const auto global = at::linalg_vector_norm(
      at::empty(self.sizes(), self.options().device(at::kMeta)), order, dims, /*keepdim=*/true, dtype);
  const auto result_dtype = global.scalar_type();
  if (is_watched() || !as_dtensor(self)->spec()->mesh().is_member()) {
    return norm_by_operators(self, merge.order, dims, keepdim, result_dtype);
  }
  const auto terms_dtype = accumulation_dtype(result_dtype);
  const auto complete = reduced(self);
  const auto& spec = as_dtensor(complete)->spec();
  const auto& local = as_dtensor(complete)->local();
  const auto local_norms = reduced_count(local, dims) == 0
      ? at::full(kept_shape(local.sizes(), dims), merge.of_nothing(), local.options().dtype(terms_dtype))
      : at::linalg_vector_norm(
            local, order, dims, /*keepdim=*/true, terms_dtype == result_dtype ? dtype : std::optional(terms_dtype));
  auto terms_layout = spec->layout();
  auto layout = spec->layout();
  for (int64_t m = 0; m < layout.ndim(); ++m) {
    if (layout[m].is_shard() && std::find(dims.begin(), dims.end(), layout[m].dim()) != dims.end()) {
      terms_layout = terms_layout.with(m, Partial(merge.op()));
      layout = layout.with(m, Replicate());
    }
  }
  const auto terms = make_dtensor(
      merge.to_terms(local_norms).contiguous(),
      TensorSpec::make(spec->mesh(), terms_layout, global.sizes(), terms_dtype));
  // Terms without a root are reduced where they are read. The gradient of a maximum reads it, and the sum of 16-bit
  // terms would be less exact.
  const bool is_read_by_gradient = std::isinf(merge.order) && self.requires_grad() && at::GradMode::is_enabled();
  if (!merge.has_root() && !is_read_by_gradient && terms_dtype == result_dtype) {
    return keepdim ? terms : terms.squeeze(dims);
  }
  const auto norms = merge.from_terms(move_implicitly("aten::linalg_vector_norm", terms, layout)).to(result_dtype);
  return keepdim ? norms : norms.squeeze(dims);
}

at::Tensor norm_of_all(const at::Tensor& self, const at::Scalar& order) {
  return vector_norm(self, order, std::nullopt, /*keepdim=*/false, std::nullopt);
}

at::Tensor norm_along(
    const at::Tensor& self,
    const std::optional<at::Scalar>& order,
    c10::IntArrayRef dim,
    bool keepdim) {
  return vector_norm(self, order.value_or(at::Scalar(2)), dim, keepdim, std::nullopt);
}

at::Tensor norm_along_as(
    const at::Tensor& self,
    const std::optional<at::Scalar>& order,
    c10::IntArrayRef dim,
    bool keepdim,
    at::ScalarType dtype) {
  return vector_norm(self, order.value_or(at::Scalar(2)), dim, keepdim, dtype);
}

at::Tensor norm_of_all_as(const at::Tensor& self, const std::optional<at::Scalar>& order, at::ScalarType dtype) {
  return vector_norm(self, order.value_or(at::Scalar(2)), std::nullopt, /*keepdim=*/false, dtype);
}

/// Whether this rank is the first of those along these mesh dims that hold the same local tensor. Only the first one
/// contributes its term to a sum.
bool is_first_of_replicas(const TensorSpec& spec, c10::IntArrayRef mesh_dims) {
  return std::all_of(mesh_dims.begin(), mesh_dims.end(), [&](int64_t m) {
    return spec.layout()[m].is_shard() || spec.mesh().rank(m) == 0;
  });
}

/// Which of these tensors that holds for. Made by operators alone, because a step that is recorded repeats operators, and on the
/// device, because a copy to it makes the host wait.
at::Tensor firsts_of_replicas(const std::vector<SpecPtr>& specs, c10::IntArrayRef mesh_dims, c10::Device device) {
  const auto count = static_cast<int64_t>(specs.size());
  const auto firsts = at::zeros({count}, at::TensorOptions(device).dtype(at::kBool));
  for (int64_t begin = 0, end = 0; begin < count; begin = end + 1) {
    for (end = begin; end < count && is_first_of_replicas(*specs[end], mesh_dims);) {
      ++end;
    }
    if (end > begin) {
      firsts.narrow(0, begin, end - begin).fill_(true);
    }
  }
  return firsts;
}

/// One norm per tensor: one fused local operator, and one all-reduce for all tensors, over every mesh dim that shards
/// one of them.
std::vector<at::Tensor> foreach_norm(
    at::TensorList self,
    const at::Scalar& order,
    std::optional<at::ScalarType> dtype) {
  if (is_watched() || !as_dtensor(self[0])->spec()->mesh().is_member()) {
    std::vector<at::Tensor> norms;
    for (const auto& tensor : self) {
      norms.push_back(vector_norm(tensor, order, std::nullopt, /*keepdim=*/false, dtype));
    }
    return norms;
  }
  const NormMerge merge{order.toDouble()};
  std::vector<SpecPtr> specs;
  std::vector<at::Tensor> locals;
  for (const auto& tensor : self) {
    const auto complete = reduced(tensor);
    specs.push_back(as_dtensor(complete)->spec());
    const auto& local = as_dtensor(complete)->local();
    const auto wide = local.to(accumulation_dtype(local.scalar_type()));
    // A local tensor without elements has no maximum, which _foreach_norm of order inf needs.
    locals.push_back(local.numel() != 0 ? wide : at::full({1}, merge.of_nothing(), wide.options()));
  }
  const auto& mesh = specs[0]->mesh();
  MeshDims shard_mesh_dims;
  for (int64_t m = 0; m < mesh.ndim(); ++m) {
    if (std::any_of(specs.begin(), specs.end(), [&](const auto& spec) { return spec->layout()[m].is_shard(); })) {
      shard_mesh_dims.push_back(m);
    }
  }
  auto norms = at::stack(at::_foreach_norm(locals, order, dtype));
  if (!shard_mesh_dims.empty()) {
    auto terms = merge.to_terms(norms);
    if (merge.op() == ReduceOp::Sum) {
      terms = at::where(firsts_of_replicas(specs, shard_mesh_dims, terms.device()), terms, 0);
    }
    norms = merge.from_terms(reduce_implicitly("aten::_foreach_norm", terms, mesh, shard_mesh_dims, merge.op()));
  }
  const auto scalars = norms.unbind();
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto own = dtype.value_or(c10::toRealValueType(self[i].scalar_type()));
    const auto spec = TensorSpec::make(mesh, replicated(mesh), {}, own);
    results.push_back(make_dtensor(scalars[i].to(own), spec));
  }
  return results;
}

at::Tensor logsumexp_over_ranks(const at::Tensor& self, c10::IntArrayRef dim, bool keepdim) {
  const auto dims = wrapped_dims(dim, self.dim());
  const bool is_integral = c10::isIntegralType(self.scalar_type(), /*includeBool=*/true);
  const auto values = is_integral ? self.to(c10::get_default_dtype_as_scalartype()) : self;
  auto largest = (values.is_complex() ? at::real(values) : values).amax(dims, /*keepdim=*/true);
  // Reduces the maxima once for all of their uses below. Tensors of a program that is decomposed are not distributed.
  if (const auto* impl = as_dtensor(largest); impl != nullptr && impl->spec()->layout().has_partial()) {
    largest = move_implicitly("aten::logsumexp", largest, without_partial(impl->spec()->layout()));
  }
  largest = largest.masked_fill(largest.abs().eq(std::numeric_limits<double>::infinity()), 0);
  const auto sums = (values - largest).exp().sum(dims, keepdim).log();
  return sums + (keepdim ? largest : largest.squeeze(dims));
}

/// Whether two reductions of the result's size are cheaper than gathering the operand along the reduced dims.
bool is_cheaper_than_gathering(const OpCall& call, c10::ArrayRef<SpecPtr> operands) {
  if (!shards_reduced_dims(call, operands)) {
    return false;
  }
  const auto& spec = operands[0];
  const auto dims = call.reduced_dims("dim", call.operand(0).dim());
  const auto is_reduced = [&](const Placement& placement) {
    return placement.is_shard() && std::find(dims.begin(), dims.end(), placement.dim()) != dims.end();
  };
  auto terms = without_partial(spec->layout());
  auto gathered = terms;
  for (int64_t m = 0; m < terms.ndim(); ++m) {
    if (is_reduced(spec->layout()[m])) {
      terms = terms.with(m, Partial());
      gathered = gathered.with(m, Replicate());
    }
  }
  const auto results = TensorSpec::make(spec->mesh(), terms, kept_shape(spec->sizes(), dims), spec->dtype());
  const auto complete = spec->with(without_partial(spec->layout()));
  return 2 * cost(plan(results, results->with(gathered))) < cost(plan(complete, complete->with(gathered)));
}

} // namespace

void add_norm_decompositions(Decompositions& all) {
  using c10::KernelFunction;
  const auto add = [&](const char* name, KernelFunction kernel) {
    all.emplace(name, Decomposition{&shards_reduced_dims_or_is_partial, std::move(kernel)});
  };
  add("aten::linalg_vector_norm", KernelFunction::makeFromUnboxedFunction(TORCH_FN(vector_norm)));
  add("aten::norm.Scalar", KernelFunction::makeFromUnboxedFunction(TORCH_FN(norm_of_all)));
  add("aten::norm.ScalarOpt_dim", KernelFunction::makeFromUnboxedFunction(TORCH_FN(norm_along)));
  add("aten::norm.ScalarOpt_dim_dtype", KernelFunction::makeFromUnboxedFunction(TORCH_FN(norm_along_as)));
  add("aten::norm.ScalarOpt_dtype", KernelFunction::makeFromUnboxedFunction(TORCH_FN(norm_of_all_as)));
  all.emplace(
      "aten::logsumexp",
      Decomposition{
          &is_cheaper_than_gathering, KernelFunction::makeFromUnboxedFunction(TORCH_FN(logsumexp_over_ranks))});
  all.emplace(
      "aten::_foreach_norm.Scalar",
      Decomposition{
          [](const OpCall&, c10::ArrayRef<SpecPtr>) { return true; },
          KernelFunction::makeFromUnboxedFunction(TORCH_FN(foreach_norm))});
}

} // namespace weft
