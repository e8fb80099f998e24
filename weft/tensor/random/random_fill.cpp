#include "weft/tensor/random/random_fill.h"

#include "weft/core/dtype_text.h"
#include "weft/core/traced_tensor.h"
#include "weft/redistribute/local_recorder.h"
#include "weft/tensor/impl/call_agreement.h"
#include "weft/tensor/impl/scopes.h"
#include "weft/tensor/random/random_cpu.h"
#include "weft/tensor/random/random_cuda.h"
#include "weft/tensor/random/random_indices.h"
#include "weft/tensor/random/recorded_draws.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/lt.h>

namespace weft {

namespace {

bool takes(const Distribution& distribution, c10::ScalarType dtype) {
  using Kind = Distribution::Kind;
  const bool is_real = dtype == at::kFloat || dtype == at::kDouble || dtype == at::kHalf || dtype == at::kBFloat16;
  switch (distribution.kind) {
    case Kind::Geometric:
    case Kind::Bernoulli:
    case Kind::Integers:
      return is_real || dtype == at::kBool || dtype == at::kByte || dtype == at::kChar || dtype == at::kShort ||
          dtype == at::kInt || dtype == at::kLong;
    default:
      return is_real;
  }
}

void check_drawable(const at::Tensor& local, const TensorSpec& spec, const Distribution& distribution) {
  TORCH_CHECK_VALUE(
      !spec.layout().has_partial(), "[random] a tensor of placements R and S is required, but got ", spec,
      ". Numbers cannot be written to a partial value; redistribute it first.");
  TORCH_CHECK_NOT_IMPLEMENTED(
      takes(distribution, local.scalar_type()), "[random] numbers of this distribution cannot be of dtype ",
      dtype_text(local.scalar_type()), ". Use f32, f64, f16 or bf16, or cast the result.");
}

at::Tensor fractions_like(const at::Tensor& local) {
  return at::empty(local.sizes(), local.options().dtype(at::kDouble));
}

} // namespace

void fill_contiguous(
    const at::Tensor& contiguous,
    const LocalIndices& indices,
    const Distribution& distribution,
    RandomCall call) {
  if (contiguous.is_cpu()) {
    fill_random_cpu(contiguous, indices, distribution, call);
    return;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      contiguous.is_cuda(), "[random] random numbers on CPU and CUDA are required, but got the device ",
      contiguous.device(), ". Fill the tensor on one of them.");
  if (const auto first = indices.single_range()) {
    fill_random_cuda(contiguous, *first, distribution, call);
  } else {
    const auto device = contiguous.device();
    fill_random_cuda(contiguous, indices.row_begins(device), indices.within_row(device), distribution, call);
  }
}

void check_not_traced(const at::Tensor& local) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !is_traced(local),
      "[random] random numbers of a distributed tensor are required outside of compiled code, but got "
      "a traced tensor of shape ",
      local.sizes(),
      ". Draw them before the compiled function, or exclude the module that does by torch.compiler.disable.");
}

void fill_random(
    const at::Tensor& local,
    const TensorSpec& spec,
    const Distribution& distribution,
    const std::optional<at::Generator>& generator) {
  if (!is_traced(local)) {
    fill_random(local, spec, distribution, next_random_call(generator));
    return;
  }
  check_drawable(local, spec, distribution);
  record_draw(local, spec, distribution, generator);
}

void fill_random(const at::Tensor& local, const TensorSpec& spec, const Distribution& distribution, RandomCall call) {
  check_not_traced(local);
  TORCH_CHECK_NOT_IMPLEMENTED(
      LocalRecorder::of_thread() == nullptr,
      "[random] random numbers of a distributed tensor are required outside of a step that is recorded, but got a "
      "tensor ",
      spec,
      ". They are not drawn by an operator that a replay could repeat. Draw them before, and give them as input.");
  check_drawable(local, spec, distribution);
  if (!local.is_meta()) {
    before_draw(spec.mesh(), call);
  }
  if (C10_UNLIKELY(debug_enabled()) && spec.mesh().is_member() && !local.is_meta()) {
    check_agreement(spec.mesh(), c10::str("for random numbers of seed ", call.seed, ", call ", call.number));
  }
  // A rank outside the mesh holds nothing, and a meta tensor has nothing to write to.
  if (local.numel() == 0 || local.is_meta()) {
    return;
  }
  if (local.is_contiguous()) {
    fill_contiguous(local, LocalIndices(spec), distribution, call);
  } else {
    const auto values = at::empty(local.sizes(), local.options());
    fill_contiguous(values, LocalIndices(spec), distribution, call);
    local.copy_(values);
  }
}

void fill_bernoulli(const at::Tensor& local, const at::Tensor& probabilities, const TensorSpec& spec, RandomCall call) {
  const auto fractions = fractions_like(local);
  fill_random(fractions, spec, Distribution::fraction(), call);
  local.copy_(fractions.lt(probabilities));
}

void fill_bernoulli(
    const at::Tensor& local,
    const at::Tensor& probabilities,
    const TensorSpec& spec,
    const std::optional<at::Generator>& generator) {
  const auto fractions = fractions_like(local);
  fill_random(fractions, spec, Distribution::fraction(), generator);
  local.copy_(fractions.lt(probabilities));
}

} // namespace weft
