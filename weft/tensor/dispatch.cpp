#include "weft/tensor/dispatch.h"

#include "weft/tensor/as_strided.h"
#include "weft/tensor/call_agreement.h"
#include "weft/tensor/einsum.h"
#include "weft/tensor/explain.h"
#include "weft/tensor/gradient_layout.h"
#include "weft/tensor/in_backward.h"
#include "weft/tensor/in_place_view.h"
#include "weft/tensor/linear_backward.h"
#include "weft/tensor/local_call.h"
#include "weft/tensor/prepare.h"
#include "weft/tensor/random_fallback.h"
#include "weft/tensor/random_kernels.h"
#include "weft/tensor/rms_norm_backward.h"
#include "weft/tensor/scopes.h"
#include "weft/tensor/selecting_backward.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <mutex>

namespace weft {

namespace {

using torch::jit::Stack;
using ArgumentKind = OperatorSchema::ArgumentKind;

/// One operator on distributed tensors: reads the arguments, finds how such a call is run, runs it on the locals.
class DTensorKernel final : public c10::OperatorKernel {
 public:
  explicit DTensorKernel(const c10::OperatorHandle& op) : traits_(op), inner_dropout_(inner_dropout_argument(op)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    if (C10_UNLIKELY(inner_dropout_.has_value())) {
      check_no_inner_dropout(op, torch::jit::peek(*stack, *inner_dropout_, traits_.schema.arguments.size()));
    }
    CallKey key;
    OperandRefs operands;
    key.add(reinterpret_cast<uintptr_t>(this) | (!traits_.schema.written.empty() && in_backward() ? 1 : 0));
    read_arguments(op, torch::jit::last(*stack, traits_.schema.arguments.size()), key, operands);
    auto& cache = CallCache::of_thread();
    auto* call = cache.find(key);
    if (call == nullptr) {
      call = &first_call(op, stack, key, operands, cache);
    }
    if (C10_UNLIKELY(call->decomposition != nullptr)) {
      call->decomposition->kernel.callBoxed(op, keys, stack);
      return;
    }
    if (C10_UNLIKELY(Scopes::of_thread().any())) {
      observe(*call);
    }
    if (C10_UNLIKELY(call->is_fallback)) {
      count_fallback(*call);
    }
    run_local_call(op, traits_.schema, *call, stack, operands);
  }

  size_t fallbacks() const {
    return fallbacks_;
  }

 private:
  void read_arguments(
      const c10::OperatorHandle& op,
      c10::ArrayRef<c10::IValue> arguments,
      CallKey& key,
      OperandRefs& operands) const {
    for (size_t i = 0; i < arguments.size(); ++i) {
      const auto& value = arguments[i];
      switch (traits_.schema.arguments[i]) {
        case ArgumentKind::Tensor:
          read_tensor(op, value, static_cast<int32_t>(i), -1, key, operands);
          break;
        case ArgumentKind::TensorList:
        case ArgumentKind::OptionalTensorList: {
          if (value.isNone()) {
            key.add(0);
            break;
          }
          const auto list = value.toListRef();
          key.add(list.size());
          for (size_t k = 0; k < list.size(); ++k) {
            read_tensor(op, list[k], static_cast<int32_t>(i), static_cast<int32_t>(k), key, operands);
          }
          break;
        }
        case ArgumentKind::Static:
          key.add_static(value);
          break;
        case ArgumentKind::Value:
          key.add_type(value);
          break;
        case ArgumentKind::Fill:
          key.add_fill(value);
          break;
      }
    }
  }

  void read_tensor(
      const c10::OperatorHandle& op,
      const c10::IValue& value,
      int32_t argument,
      int32_t position,
      CallKey& key,
      OperandRefs& operands) const {
    if (!value.isTensor() || !value.toTensor().defined()) {
      key.add(0);
      return;
    }
    const auto& tensor = value.toTensor();
    auto* impl = as_dtensor(tensor);
    operands.push_back({argument, position, &tensor, impl});
    if (impl != nullptr) {
      const bool stays = is_stationary(tensor);
      if (C10_UNLIKELY(stays && impl->claim_gradient_layout())) {
        keep_gradient_layout(tensor);
      }
      TORCH_CHECK_VALUE(
          C10_LIKELY(!impl->is_stale_copy()), "[", op.schema().name(), "] argument '",
          op.schema().arguments()[argument].name(), "' (", *impl->spec(),
          ") is a view that had to be redistributed, and the tensor it was taken of has changed since. Take the view "
          "again, or redistribute that tensor first.");
      // Specs are aligned, so the lowest bits are free.
      key.add(reinterpret_cast<uintptr_t>(impl->spec().get()) | (stays ? 1 : 0) | (impl->is_copy_of_base() ? 2 : 0));
    } else {
      read_plain(op, tensor, argument, key);
    }
  }

  void read_plain(const c10::OperatorHandle& op, const at::Tensor& tensor, int32_t argument, CallKey& key) const {
    // In backward it comes from a derivative formula, which makes it of shapes alone: the same on every rank.
    TORCH_CHECK_TYPE(
        tensor.dim() == 0 || Scopes::of_thread().replicate_plain || in_backward(), "[", op.schema().name(),
        "] distributed and plain tensors cannot be mixed, but argument '", op.schema().arguments()[argument].name(),
        "' is a plain tensor of shape ", tensor.sizes(),
        ". Distribute it with distribute_tensor or from_local, or say by a ReplicatePlainScope that it is the same on "
        "every rank.");
    const bool is_number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
    key.add(2 | (is_number ? 4 : 0) | static_cast<uint64_t>(tensor.scalar_type()) << 3);
    key.add(tensor.dim());
    for (const auto size : tensor.sizes()) {
      key.add(size);
    }
  }

  PreparedCall& first_call(
      const c10::OperatorHandle& op,
      Stack* stack,
      const CallKey& key,
      const OperandRefs& operands,
      CallCache& cache) const {
    const auto arguments = torch::jit::last(*stack, traits_.schema.arguments.size());
    return cache.add(key, prepare(op, traits_, arguments, operands));
  }

  void observe(const PreparedCall& call) const {
    const auto& scopes = Scopes::of_thread();
    if (scopes.debug) {
      check_agreement(call);
    }
    if (scopes.explain != nullptr) {
      scopes.explain->add(call.explanation);
    }
    TORCH_CHECK_VALUE(
        !scopes.strict || !call.communicates, "[", call.explanation->op,
        "] would communicate, which the strict scope forbids:\n", call.explanation->to_string(),
        "\nRedistribute the inputs first, or leave the scope.");
  }

  void count_fallback(const PreparedCall& call) {
    const auto& returns = traits_.schema.returns;
    // A number that is the same on every rank, as item gives, cannot come of less than the whole.
    const bool gives_tensors = std::any_of(returns.begin(), returns.end(), [](const auto& r) { return r.is_tensor; });
    if (fallbacks_++ == 0 && call.communicates && gives_tensors) {
      TORCH_WARN(
          "[", call.explanation->op, "] has no sharding rule: its inputs are replicated on every rank, here ",
          call.explanation->bytes, " bytes. Said once per operator.");
    }
  }

  OperatorTraits traits_;
  std::optional<size_t> inner_dropout_;
  std::atomic<size_t> fallbacks_ = 0;
};

/// Composite operators that stay whole: they have a derivative formula of their own, or get one here.
bool stays_whole(const std::string& name) {
  return name == "aten::linear" || name == "aten::matmul" || name == "aten::einsum" || name == "aten::_fused_rms_norm";
}

/// Whether the operator is run by rules: not where it has a kernel of its own, or is made of others that are.
bool is_run_by_rules(const c10::OperatorHandle& op) {
  const bool is_composite = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  return (!is_composite || stays_whole(op.schema().name())) && !op.hasKernelForDispatchKey(kDTensorKey) &&
      !is_composed_of_random(op);
}

/// All of them, by full name; the dispatcher owns them for the life of the process.
std::vector<std::pair<std::string, const DTensorKernel*>>& kernels() {
  static auto* all = new std::vector<std::pair<std::string, const DTensorKernel*>>();
  return *all;
}

void register_all() {
  // Kept for the life of the process, as ATen's own kernels are.
  static auto* library = new torch::Library(torch::Library::IMPL, "aten", kDTensorKey, __FILE__, __LINE__);
  static auto* autograd =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradPrivateUse2, __FILE__, __LINE__);
  register_random(*library);
  register_as_strided(*library);
  register_in_place_views(*library);
  // Made of operators that are differentiable, so that backward is too.
  for (auto* each : {library, autograd}) {
    register_linear_backward(*each);
    register_selecting_backward(*each);
  }
  register_rms_norm_backward(*autograd);
  register_einsum(*autograd);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (!name.name.starts_with("aten::") || !op || !op->hasSchema() || !is_run_by_rules(*op)) {
      continue;
    }
    const auto full = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    auto kernel = std::make_unique<DTensorKernel>(*op);
    kernels().emplace_back(full, kernel.get());
    library->impl(full.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::move(kernel)));
  }
}

} // namespace

void install_dispatch() {
  static std::once_flag once;
  std::call_once(once, register_all);
}

std::map<std::string, size_t> fallback_counts() {
  install_dispatch();
  std::map<std::string, size_t> counts;
  for (const auto& [name, kernel] : kernels()) {
    if (kernel->fallbacks() > 0) {
      counts[name] = kernel->fallbacks();
    }
  }
  return counts;
}

CallCache::Counters call_cache_counters() {
  return CallCache::of_thread().counters();
}

} // namespace weft
