#include "weft/tensor/dispatch.h"

#include "weft/propagation/choose.h"
#include "weft/rules/registry.h"
#include "weft/tensor/dtensor_impl.h"
#include "weft/tensor/linear_backward.h"
#include "weft/tensor/operator_schema.h"
#include "weft/tensor/random_fallback.h"
#include "weft/tensor/random_kernels.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include <mutex>

namespace weft {

namespace {

using torch::jit::Stack;

/// A tensor among the arguments: where it is, and which.
struct OperandRef {
  int32_t argument;
  int32_t position; // in a list; -1 for a tensor argument
  const at::Tensor* tensor;
  DTensorImpl* impl; // nullptr for a plain tensor
};

using OperandRefs = c10::SmallVector<OperandRef, 8>;

void append_static(CallKey& key, const c10::IValue& value) {
  if (value.isInt()) {
    key.push_back(value.toInt());
  } else if (value.isBool()) {
    key.push_back(value.toBool() ? 1 : 0);
  } else if (value.isNone()) {
    key.push_back(0x6e6f6e65);
  } else if (value.isIntList()) {
    const auto list = value.toIntList();
    key.push_back(list.size());
    for (const int64_t item : list) {
      key.push_back(item);
    }
  } else if (value.isList()) {
    const auto list = value.toListRef();
    key.push_back(list.size());
    for (const auto& item : list) {
      append_static(key, item);
    }
  } else if (value.isString()) {
    const auto text = value.toStringView();
    key.push_back(text.size());
    key.insert(key.end(), text.begin(), text.end());
  } else if (value.isDevice()) {
    const auto device = value.toDevice();
    key.push_back(static_cast<uint64_t>(device.type()) << 8 | static_cast<uint8_t>(device.index()));
  } else {
    TORCH_INTERNAL_ASSERT(false, "a static argument of type ", value.tagKind());
  }
}

/// A parameter: a leaf that gradients are wanted of.
bool is_stationary(const at::Tensor& tensor) {
  return tensor.requires_grad() && tensor.is_leaf();
}

class DTensorKernel final : public c10::OperatorKernel {
 public:
  explicit DTensorKernel(const c10::OperatorHandle& op)
      : schema_(op.schema()),
        rule_(RuleRegistry::instance().find(op.schema().name())),
        inner_dropout_(inner_dropout_argument(op)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, Stack* stack) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto arguments = torch::jit::last(*stack, schema_.arguments.size());
    if (inner_dropout_) {
      check_no_inner_dropout(op, arguments[*inner_dropout_]);
    }
    CallKey key;
    OperandRefs operands;
    key.push_back(reinterpret_cast<uintptr_t>(this));
    read_arguments(op, arguments, key, operands);
    auto& cache = CallCache::of_thread();
    if (const auto* cached = cache.find(key)) {
      run(op, stack, operands, *cached);
    } else {
      run_first_time(op, stack, operands, key, cache);
    }
  }

 private:
  void read_arguments(
      const c10::OperatorHandle& op,
      c10::ArrayRef<c10::IValue> arguments,
      CallKey& key,
      OperandRefs& operands) const {
    for (size_t i = 0; i < arguments.size(); ++i) {
      const auto& value = arguments[i];
      switch (schema_.arguments[i]) {
        case OperatorSchema::ArgumentKind::Tensor:
          if (value.isTensor() && value.toTensor().defined()) {
            read_tensor(op, value.toTensor(), static_cast<int32_t>(i), -1, key, operands);
          } else {
            key.push_back(0);
          }
          break;
        case OperatorSchema::ArgumentKind::TensorList: {
          if (value.isNone()) {
            key.push_back(0);
            break;
          }
          const auto list = value.toListRef();
          key.push_back(list.size());
          for (size_t k = 0; k < list.size(); ++k) {
            if (list[k].isTensor() && list[k].toTensor().defined()) {
              read_tensor(op, list[k].toTensor(), static_cast<int32_t>(i), static_cast<int32_t>(k), key, operands);
            } else {
              key.push_back(0);
            }
          }
          break;
        }
        case OperatorSchema::ArgumentKind::Static:
          append_static(key, value);
          break;
        case OperatorSchema::ArgumentKind::Value:
          break;
      }
    }
  }

  void read_tensor(
      const c10::OperatorHandle& op,
      const at::Tensor& tensor,
      int32_t argument,
      int32_t position,
      CallKey& key,
      OperandRefs& operands) const {
    auto* impl = as_dtensor(tensor);
    operands.push_back({argument, position, &tensor, impl});
    if (impl != nullptr) {
      // Specs are aligned, so the lowest bit is free.
      key.push_back(reinterpret_cast<uintptr_t>(impl->spec().get()) | (is_stationary(tensor) ? 1 : 0));
      return;
    }
    TORCH_CHECK_TYPE(
        tensor.dim() == 0, "[", op.schema().name(), "] distributed and plain tensors cannot be mixed, but argument '",
        op.schema().arguments()[argument].name(), "' is a plain tensor of shape ", tensor.sizes(),
        ". Distribute it with distribute_tensor or from_local.");
    key.push_back(2 | static_cast<uint64_t>(tensor.scalar_type()) << 2);
  }

  static void run_local(
      const c10::OperatorHandle& op,
      Stack* stack,
      const OperandRefs& operands,
      const CachedCall& call,
      size_t first) {
    for (size_t i = 0; i < operands.size(); ++i) {
      const auto& ref = operands[i];
      auto local = ref.impl != nullptr ? ref.impl->local() : *ref.tensor;
      if (call.moves[i]) {
        local = call.moves[i]->run(local).wait();
      }
      auto& value = (*stack)[first + ref.argument];
      if (ref.position < 0) {
        value = std::move(local);
        continue;
      }
      if (value.isTensorList()) {
        auto list = ref.position == 0 || !value.use_count() ? value.toTensorList().copy() : value.toTensorList();
        list.set(ref.position, std::move(local));
        value = std::move(list);
      } else {
        auto list = value.toList().copy();
        list.set(ref.position, std::move(local));
        value = std::move(list);
      }
    }
    if (call.shape_argument >= 0) {
      (*stack)[first + call.shape_argument] = call.local_shape;
    }
    op.callBoxed(stack);
  }

  /// Puts distributed tensors in the place of local results.
  void wrap_outputs(Stack* stack, const CachedCall& call, c10::ArrayRef<c10::IValue> originals) const {
    const auto first = stack->size() - schema_.returns.size();
    size_t output = 0;
    for (size_t r = 0; r < schema_.returns.size(); ++r) {
      auto& value = (*stack)[first + r];
      const auto& ret = schema_.returns[r];
      if (!ret.is_tensor) {
        continue;
      }
      if (ret.stored_in >= 0) {
        value = originals[ret.stored_in];
      } else if (value.isTensor()) {
        value = wrap(value.toTensor(), call, output++);
      } else {
        auto list = value.toTensorVector();
        for (auto& tensor : list) {
          tensor = wrap(tensor, call, output++);
        }
        value = std::move(list);
      }
    }
  }

  static at::Tensor wrap(const at::Tensor& local, const CachedCall& call, size_t output) {
    if (!local.defined()) {
      return local;
    }
    return make_dtensor(call.make_contiguous[output] ? local.contiguous() : local, call.outputs[output]);
  }

  void run(const c10::OperatorHandle& op, Stack* stack, const OperandRefs& operands, const CachedCall& call) const {
    const auto first = stack->size() - schema_.arguments.size();
    // The stack is about to hold locals: what is stored into, and the operands themselves, must stay.
    const c10::SmallVector<c10::IValue, 8> originals(stack->begin() + static_cast<int64_t>(first), stack->end());
    OperandRefs kept = operands;
    for (auto& ref : kept) {
      if (ref.position < 0) {
        ref.tensor = &originals[ref.argument].toTensor();
      }
    }
    run_local(op, stack, kept, call, first);
    wrap_outputs(stack, call, originals);
  }

  void run_first_time(
      const c10::OperatorHandle& op,
      Stack* stack,
      const OperandRefs& operands,
      const CallKey& key,
      CallCache& cache);

  /// The rule of this call, with out= arguments among the inputs; on replicated tensors where there is none.
  Rule rule_of(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments, const OperandRefs& operands) const;

  OperatorSchema schema_;
  const RuleFunction* rule_;
  std::optional<size_t> inner_dropout_;
};

Rule DTensorKernel::rule_of(
    const c10::OperatorHandle& op,
    c10::ArrayRef<c10::IValue> arguments,
    const OperandRefs& operands) const {
  std::vector<Operand> metas;
  std::vector<OpCall::Range> ranges(arguments.size(), {0, 0});
  for (const auto& ref : operands) {
    if (schema_.is_out[ref.argument]) {
      continue;
    }
    auto& range = ranges[ref.argument];
    range = {range.count == 0 ? static_cast<int64_t>(metas.size()) : range.begin, range.count + 1};
    metas.push_back({ref.tensor->sizes(), ref.tensor->scalar_type()});
  }
  std::optional<Rule> rule;
  if (rule_ != nullptr) {
    rule = (*rule_)(OpCall(op.schema(), arguments, metas, ranges));
  }
  if (!rule) {
    rule.emplace();
    for (const auto& meta : metas) {
      rule->inputs.emplace_back(meta.sizes.size());
    }
  }
  for (const auto& ref : operands) {
    if (schema_.is_out[ref.argument]) {
      rule->inputs.push_back(rule->outputs.empty() ? Rule::Dims(ref.tensor->dim()) : rule->outputs[0]);
    }
  }
  return *rule;
}

void DTensorKernel::run_first_time(
    const c10::OperatorHandle& op,
    Stack* stack,
    const OperandRefs& operands,
    const CallKey& key,
    CallCache& cache) {
  const auto first = stack->size() - schema_.arguments.size();
  const c10::SmallVector<c10::IValue, 8> originals(stack->begin() + static_cast<int64_t>(first), stack->end());
  const DeviceMesh* mesh = nullptr;
  for (const auto& ref : operands) {
    if (ref.impl == nullptr) {
      continue;
    }
    TORCH_CHECK_VALUE(
        mesh == nullptr || *mesh == ref.impl->spec()->mesh(), "[", op.schema().name(),
        "] all tensors must be on the same mesh, but got ", *mesh, " and ", ref.impl->spec()->mesh(), ".");
    mesh = &ref.impl->spec()->mesh();
  }
  TORCH_INTERNAL_ASSERT(mesh != nullptr);
  const Layout replicated(Placements(mesh->ndim(), Replicate()));
  CachedCall call;
  std::vector<PlacedOperand> placed;
  std::vector<StoredOutput> stored;
  for (const auto& ref : operands) {
    auto spec = ref.impl != nullptr
        ? ref.impl->spec()
        : TensorSpec::make(*mesh, replicated, ref.tensor->sizes(), ref.tensor->scalar_type());
    placed.push_back({spec, ref.impl != nullptr && is_stationary(*ref.tensor)});
    call.operands.push_back(std::move(spec));
  }
  const auto rule = rule_of(op, originals, operands);
  for (size_t r = 0; r < schema_.returns.size(); ++r) {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (schema_.returns[r].stored_in == operands[i].argument) {
        stored.push_back(
            {std::min<int64_t>(static_cast<int64_t>(r), static_cast<int64_t>(rule.outputs.size()) - 1),
             static_cast<int64_t>(i)});
      }
    }
  }
  if (rule.outputs.empty()) {
    for (const auto& [output, operand] : stored) {
      TORCH_CHECK_NOT_IMPLEMENTED(
          placed[operand].spec->layout() == replicated, "[", op.schema().name(),
          "] has no rule that could store its result in ", *placed[operand].spec, ". Redistribute it to R first.");
    }
    stored.clear();
  }
  const auto strategy = choose(rule, placed, stored);
  TORCH_CHECK_VALUE(
      strategy.has_value(), "[", op.schema().name(), "] the result cannot be stored in ",
      stored.empty() ? "it" : placed[stored[0].operand].spec->to_string(),
      ", whose placements stay as they are. Redistribute it first, or use the functional form.");
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto& spec = call.operands[i];
    const bool stays = spec->layout() == strategy->inputs[i];
    call.moves.push_back(
        stays ? nullptr : std::make_shared<const CompiledPlan>(plan(spec, spec->with(strategy->inputs[i]))));
  }
  const auto global_size = [&](const Rule::Dim& dim) {
    int64_t size = 1;
    for (const auto factor : dim) {
      size *= rule.sizes[factor];
    }
    return size;
  };
  if (!rule.shape_argument.empty()) {
    call.shape_argument = *op.schema().argumentIndexWithName(rule.shape_argument);
    auto global = originals[call.shape_argument].toIntVector();
    for (size_t d = 0; d < global.size(); ++d) {
      global[d] = rule.outputs[0][d].empty() ? global[d] : global_size(rule.outputs[0][d]);
    }
    const auto block = local_shape_and_offset(global, strategy->outputs[0], mesh->shape(), mesh->coordinate());
    call.local_shape.assign(block.shape.begin(), block.shape.end());
  }
  OperandRefs kept = operands;
  for (auto& ref : kept) {
    if (ref.position < 0) {
      ref.tensor = &originals[ref.argument].toTensor();
    }
  }
  run_local(op, stack, kept, call, first);

  std::vector<at::Tensor> results;
  const auto first_result = stack->size() - schema_.returns.size();
  for (size_t r = 0; r < schema_.returns.size(); ++r) {
    const auto& value = (*stack)[first_result + r];
    if (!schema_.returns[r].is_tensor || schema_.returns[r].stored_in >= 0) {
      continue;
    }
    if (value.isTensor()) {
      results.push_back(value.toTensor());
    } else {
      const auto list = value.toTensorVector();
      results.insert(results.end(), list.begin(), list.end());
    }
  }
  for (size_t o = 0; o < results.size(); ++o) {
    if (!results[o].defined()) {
      call.outputs.emplace_back();
      call.make_contiguous.push_back(false);
      continue;
    }
    auto sizes = results[o].sizes().vec();
    const auto& layout = o < strategy->outputs.size() ? strategy->outputs[o] : replicated;
    for (size_t d = 0; o < rule.outputs.size() && d < sizes.size(); ++d) {
      sizes[d] = rule.outputs[o][d].empty() ? sizes[d] : global_size(rule.outputs[o][d]);
    }
    call.outputs.push_back(TensorSpec::make(*mesh, layout, sizes, results[o].scalar_type()));
    call.make_contiguous.push_back(!schema_.is_view && !results[o].is_contiguous());
  }
  wrap_outputs(stack, cache.add(key, std::move(call)), originals);
}

/// Composite operators that have a derivative formula of their own, and stay whole.
bool stays_whole(const std::string& name) {
  return name == "aten::linear" || name == "aten::matmul";
}

void register_all() {
  static auto* library = new torch::Library(torch::Library::IMPL, "aten", kDTensorKey, __FILE__, __LINE__);
  register_linear_backward(*library);
  register_random(*library);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) {
      continue;
    }
    const auto op = dispatcher.findOp(name);
    if (!op || !op->hasSchema()) {
      continue;
    }
    const bool is_composite = op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
    if ((is_composite && !stays_whole(name.name)) || op->hasKernelForDispatchKey(kDTensorKey) ||
        is_composed_of_random(*op)) {
      continue;
    }
    const auto full = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    library->impl(full.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<DTensorKernel>(*op)));
  }
}

} // namespace

void install_dispatch() {
  static std::once_flag once;
  std::call_once(once, register_all);
}

CallCache::Counters call_cache_counters() {
  return CallCache::of_thread().counters();
}

} // namespace weft
