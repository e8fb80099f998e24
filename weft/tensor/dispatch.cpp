#include "weft/tensor/dispatch.h"

#include "weft/tensor/dispatch/direct_signatures.h"
#include "weft/tensor/dispatch/foreign_operators.h"
#include "weft/tensor/dispatch/kernel_table.h"
#include "weft/tensor/impl/collectives_of_torch.h"
#include "weft/tensor/impl/install_dispatch.h"
#include "weft/tensor/kernels/kernels.h"
#include "weft/tensor/random/random_fallback.h"
#include "weft/tensor/random/random_kernels.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace weft {

namespace {

/// Composite operators that are not decomposed: they have a derivative formula of their own, or get one here.
bool is_kept_composite(const std::string& name) {
  return name == "aten::linear" || name == "aten::matmul" || name == "aten::einsum" ||
      name == "aten::_fused_rms_norm" || name == "aten::silu_backward" || name == "aten::mish_backward";
}

/// Whether rules decide how the operator runs: not if it has a kernel of its own, or is composed of operators that have
/// rules.
bool is_run_by_rules(const c10::OperatorHandle& op) {
  const bool is_composite = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  return (!is_composite || is_kept_composite(op.schema().name())) && !op.hasKernelForDispatchKey(kDTensorKey) &&
      !is_composed_of_random(op);
}

/// Whether `tensor.data = from` is allowed.
bool can_take_place(const at::Tensor& tensor, const at::Tensor& from) {
  return is_dtensor(tensor) && is_dtensor(from);
}

void register_all() {
  // Kept for the life of the process, as ATen's own kernels are.
  static auto* library = new torch::Library(torch::Library::IMPL, "aten", kDTensorKey, __FILE__, __LINE__);
  static auto* autograd =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradPrivateUse2, __FILE__, __LINE__);
  register_random(*library);
  register_as_strided(*library);
  register_is_same_size(*library);
  register_one_hot(*library);
  register_slice_backward(*library);
  register_in_place_views(*library);
  register_unscale(*library);
  // Composed of differentiable operators, so that autograd can differentiate their backward too.
  for (auto* each : {library, autograd}) {
    register_linear_backward(*each);
    register_selecting_backward(*each);
    register_indexing_backward(*each);
    register_composites(*each);
    register_composite_outs(*each);
    register_instance_norm(*each);
    register_shared_heads(*each);
    register_where_number(*each);
    register_fill_diagonal(*each);
    register_max_pool1d(*each);
    register_to_meta(*each);
    each->impl("_has_compatible_shallow_copy_type", TORCH_FN(can_take_place));
  }
  register_reduction_backward(*autograd);
  register_rms_norm_backward(*autograd);
  register_einsum(*autograd);
  register_products(*autograd);
  register_index(*autograd);
  register_embedding(*autograd);
  register_on_replicated_locals(*library, *autograd);
  refuse_collectives_of_torch();
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (!name.name.starts_with("aten::") || !op || !op->hasSchema() || !is_run_by_rules(*op)) {
      continue;
    }
    const auto full = c10::toString(name);
    library->impl(full.c_str(), function_of(make_kernel(*op)));
  }
  register_foreign_operators();
}

const DispatchInstaller kInstaller(register_all, adopt_new_operators);

} // namespace

std::map<std::string, size_t> fallback_counts() {
  install_dispatch();
  std::map<std::string, size_t> counts;
  for_each_kernel([&](const std::string& name, const DTensorKernel& kernel) {
    if (kernel.fallbacks() > 0) {
      counts[name] += kernel.fallbacks();
    }
  });
  return counts;
}

CallCache::Counters call_cache_counters() {
  return CallCache::of_thread().counters();
}

} // namespace weft
