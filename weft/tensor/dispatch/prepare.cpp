#include "weft/tensor/dispatch/prepare.h"

#include "weft/core/layout_algebra.h"
#include "weft/core/same_locals.h"
#include "weft/core/traced_tensor.h"
#include "weft/propagation/decide.h"
#include "weft/propagation/global_meta.h"
#include "weft/tensor/dispatch/overlapped_call.h"
#include "weft/tensor/impl/expanded.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

namespace weft {

namespace {

class Preparation {
 public:
  Preparation(
      const c10::OperatorHandle& op,
      const OperatorTraits& traits,
      c10::ArrayRef<c10::IValue> arguments,
      c10::ArrayRef<OperandRef> operands,
      bool numbers_keep_linear)
      : op_(op),
        traits_(traits),
        arguments_(arguments),
        operands_(operands),
        numbers_keep_linear_(numbers_keep_linear) {}

  PreparedCall run() {
    take_specs();
    // Rules and decompositions rely on valid arguments: the run on meta raises for others here, the same on every rank.
    // The fallback needs no such check: it runs the operator on replicated tensors, which raises on every rank of the
    // mesh. Outside of it no local results tell the sizes of the outputs.
    if (traits_.rule != nullptr || traits_.decomposition != nullptr || call_.is_outside) {
      globals_ = global_results(op_, arguments_);
    }
    call_.has_registered_rule = traits_.rule != nullptr && traits_.rule->is_registered;
    decision_ = decide_by(traits_);
    if (lacks_sizes()) {
      auto without_rule = traits_;
      without_rule.rule = nullptr;
      decision_ = decide_by(without_rule);
      decision_.reason =
          "the sizes of sharded results are not known without a meta kernel (torch.library.register_fake): "
          "the inputs are replicated";
    }
    call_.decomposition = decision_.decomposition;
    if (call_.decomposition != nullptr) {
      return std::move(call_);
    }
    call_.is_fallback = decision_.is_fallback;
    call_.expected = decision_.expected;
    if (!call_.is_outside) {
      take_size_arguments();
      take_lookup();
      compile_moves();
    } else if (call_.is_fallback && globals_) {
      call_.expected.assign(globals_->size(), {replicated(*mesh_), {}});
    } else if (!globals_ && op_.hasTag(at::Tag::pointwise) && call_.expected.size() == 1) {
      globals_ = {pointwise_result()};
    }
    describe_outputs();
    call_.needs_linear_numbers = numbers_keep_linear_ && takes_numbers() && takes_terms();
    if (call_.write_backs.empty() && !call_.is_outside) {
      call_.overlapped = find_overlap(op_.operator_name(), call_, decision_.targets);
    }
    explain();
    return std::move(call_);
  }

 private:
  const std::string& name() const {
    return op_.schema().name();
  }
  Decision decide_by(const OperatorTraits& traits) const {
    return decide(op_, traits, arguments_, call_operands(), /*may_redistribute_stored=*/true, numbers_keep_linear_);
  }
  /// Whether neither the rule nor a run on meta says how large a sharded result is.
  bool lacks_sizes() const {
    return !globals_ && std::any_of(decision_.expected.begin(), decision_.expected.end(), [](const auto& expected) {
      return expected.sizes.empty() && expected.layout.has_shard();
    });
  }
  bool is_written(const OperandRef& ref) const {
    return traits_.schema.writes(ref.argument);
  }

  void take_specs() {
    for (const auto& ref : operands_) {
      if (ref.impl == nullptr) {
        continue; // replicated, also where it is written to: every rank stores the global result
      }
      TORCH_CHECK_VALUE(
          !ref.impl->is_copy_of_base() || !is_written(ref), "[", name(), "] argument '",
          op_.schema().arguments()[ref.argument].name(), "' (", *ref.impl->spec(),
          ") is a view that had to be redistributed, so that writing to it would not change the tensor it was taken "
          "of. "
          "Redistribute that tensor first, or clone the view.");
      if (is_written(ref)) {
        check_not_expanded(name(), *ref.impl->spec());
      }
      const auto& mesh = ref.impl->spec()->mesh();
      TORCH_CHECK_VALUE(
          mesh_ == nullptr || *mesh_ == mesh, "[", name(), "] all tensors must be on the same mesh, but got ",
          mesh_->to_string(), " and ", mesh.to_string(), ". Redistribute them on one mesh through full_tensor.");
      mesh_ = &mesh;
    }
    TORCH_INTERNAL_ASSERT(mesh_ != nullptr);
    call_.is_outside = !mesh_->is_member();
    for (const auto& ref : operands_) {
      call_.operands.push_back(
          ref.impl != nullptr
              ? ref.impl->spec()
              : TensorSpec::make(*mesh_, replicated(*mesh_), ref.tensor->sizes(), ref.tensor->scalar_type()));
    }
  }

  std::vector<CallOperand> call_operands() const {
    std::vector<CallOperand> result;
    for (size_t i = 0; i < operands_.size(); ++i) {
      const auto& ref = operands_[i];
      result.push_back({ref.argument, ref.position, call_.operands[i], is_stationary(ref), ref.impl == nullptr});
    }
    return result;
  }

  LocalBlock local_block(c10::IntArrayRef sizes, const Layout& layout) const {
    return local_shape_and_offset(sizes, layout, mesh_->shape(), mesh_->coordinate());
  }

  void take_size_arguments() {
    for (const auto& [argument, sizes, layout] : decision_.size_arguments) {
      const auto shape = local_block(sizes, layout).shape;
      const auto& given = arguments_[argument];
      const auto local = given.isList() ? c10::IValue(std::vector<int64_t>(shape.begin(), shape.end())) : shape[0];
      if (local != given) {
        call_.local_arguments.push_back({argument, local});
      }
    }
  }

  void take_lookup() {
    if (!decision_.lookup) {
      return;
    }
    const auto& lookup = *decision_.lookup;
    const auto held = local_block({lookup.size}, lookup.layout);
    call_.lookup = PreparedCall::Lookup{
        .operand = lookup.operand,
        .begin = held.offset[0],
        .length = held.shape[0],
        .size = lookup.size,
        .masks_output = lookup.masks_output,
        .table = lookup.table,
        .table_dim = lookup.table_dim};
  }

  void compile_moves() {
    PreparedCall::Moves moves(operands_.size());
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (decision_.is_written(i)) {
        prepare_write(i, moves);
      } else if (decision_.redistributes(i, call_.operands[i]) && !keeps_local(i, decision_.sources[i])) {
        moves[i] = compile(decision_.sources[i], decision_.sources[i]->with(decision_.targets[i]));
      }
    }
    if (std::any_of(moves.begin(), moves.end(), [](const auto& plan) { return plan != nullptr; })) {
      call_.moves = std::move(moves);
    }
  }

  /// Whether the local tensor is the one that the call needs: the layout changes on mesh dims of one rank only.
  bool keeps_local(size_t i, const SpecPtr& source) const {
    return source == call_.operands[i] && have_same_locals(*mesh_, source->layout(), decision_.targets[i]);
  }

  void prepare_write(size_t i, PreparedCall::Moves& moves) {
    const auto& own = call_.operands[i];
    if (own->layout() == decision_.targets[i] || keeps_local(i, own)) {
      return;
    }
    check_takes_copy(name(), *own);
    const auto target = own->with(decision_.targets[i]);
    auto& back = call_.write_backs.emplace_back();
    back.operand = i;
    if (decision_.is_unread(i)) {
      const auto shape = local_block(target->sizes(), target->layout()).shape;
      back.unread_sizes.emplace(shape.begin(), shape.end());
    } else {
      moves[i] = compile(own, target);
    }
    back.plan = compile(target, own);
  }

  std::shared_ptr<const CompiledPlan> compile(const SpecPtr& source, const SpecPtr& target) {
    auto compiled = std::make_shared<const CompiledPlan>(plan(source, target));
    for (const auto& step : compiled->plan().steps) {
      call_.communicates = call_.communicates || communicates(step.kind);
    }
    bytes_ += static_cast<int64_t>(received_bytes(compiled->plan()));
    return compiled;
  }

  bool takes_numbers() const {
    const auto is_number = [](OperatorSchema::ArgumentKind kind) {
      return kind == OperatorSchema::ArgumentKind::Value || kind == OperatorSchema::ArgumentKind::Fill;
    };
    const auto& kinds = traits_.schema.arguments;
    return std::any_of(kinds.begin(), kinds.end(), is_number) ||
        std::any_of(operands_.begin(), operands_.end(), [](const auto& ref) { return ref.impl == nullptr; });
  }

  bool takes_terms() const {
    return std::any_of(
        decision_.targets.begin(), decision_.targets.end(), [](const Layout& layout) { return layout.has_partial(); });
  }

  bool is_moved(int64_t argument) const {
    for (size_t i = 0; i < operands_.size() && !call_.moves.empty(); ++i) {
      if (operands_[i].argument == argument && call_.moves[i] != nullptr) {
        return true;
      }
    }
    return false;
  }

  /// The output of a pointwise operator without a meta kernel (abs): its sizes by the rule, its dtype by a run on numbers.
  GlobalMeta pointwise_result() const {
    torch::jit::Stack stack(arguments_.begin(), arguments_.end());
    for (const auto& ref : operands_) {
      stack[ref.argument] = at::zeros({}, at::TensorOptions(ref.tensor->scalar_type()));
    }
    op_.callBoxed(stack);
    const auto dtype = stack[0].toTensor().scalar_type();
    const auto spec = TensorSpec::make(*mesh_, replicated(*mesh_), call_.expected[0].sizes, dtype);
    GlobalMeta result;
    result.defined = true;
    result.sizes = c10::DimVector(spec->sizes());
    result.strides = c10::DimVector(spec->strides());
    result.dtype = dtype;
    return result;
  }

  void describe_outputs() {
    if ((call_.is_fallback && !call_.is_outside) || !globals_) {
      return; // the results of the fallback tell their sizes
    }
    call_.outputs_known = true;
    size_t next = 0;
    for (const auto& ret : traits_.schema.returns) {
      const auto last = &ret == &traits_.schema.returns.back();
      // An operator that returns a list returns nothing else.
      const auto count = ret.is_tensor ? (last && traits_.schema.returns.size() == 1 ? globals_->size() : 1) : 0;
      for (size_t k = 0; k < count; ++k, ++next) {
        if (ret.stored_in < 0) {
          call_.outputs.push_back(output(next, (*globals_)[next], ret));
        }
      }
    }
  }

  PreparedOutput output(size_t number, const GlobalMeta& global, const OperatorSchema::Return& ret) const {
    if (!global.defined) {
      return {};
    }
    TORCH_CHECK_VALUE(
        number < call_.expected.size(), "[", name(),
        "] its rule must have a placement or dims for every output, but got ", call_.expected.size(), " of them for ",
        globals_->size(), " outputs. Correct the rule.");
    const auto& expected = call_.expected[number];
    TORCH_CHECK_VALUE(
        expected.fits(global.sizes), "[", name(), "] output ", number, " must have the sizes that its rule gives, ",
        c10::IntArrayRef(expected.sizes), " (-1: any), but got ", c10::IntArrayRef(global.sizes),
        ". Correct the rule.");
    for (const auto& placement : expected.layout.placements()) {
      TORCH_CHECK_VALUE(
          !placement.is_shard() || placement.dim() < static_cast<int64_t>(global.sizes.size()), "[", name(),
          "] a shard dim of output ", number, " that the tensor has, of ", global.sizes.size(),
          " dims, is required, but got ", placement.to_string(), " by its rule. Correct the rule.");
    }
    PreparedOutput result;
    result.spec = TensorSpec::make(*mesh_, expected.layout, global.sizes, global.strides, global.dtype);
    result.is_view = ret.view_of >= 0;
    result.is_copy = result.is_view && is_moved(ret.view_of);
    result.offset = global.offset;
    result.contiguous = result.spec->is_contiguous();
    result.like = like(result.spec);
    if (name() == "aten::_to_copy" && is_stationary(operands_[0])) {
      result.like->become_cast_parameter();
    }
    return result;
  }

  void explain() {
    auto explanation = std::make_shared<Explanation>();
    explanation->op = c10::toString(op_.operator_name());
    for (const auto& spec : call_.operands) {
      explanation->inputs.push_back(spec->to_string());
    }
    for (const auto& layout : decision_.targets) {
      explanation->strategy += layout.to_string() + " ";
    }
    explanation->strategy += "->";
    for (const auto& expected : call_.expected) {
      explanation->strategy += " " + expected.layout.to_string();
    }
    if (call_.is_fallback) {
      explanation->strategy += " " + replicated(*mesh_).to_string();
    }
    for (size_t i = 0; i < call_.moves.size(); ++i) {
      if (call_.moves[i]) {
        explanation->plans.push_back(std::to_string(i) + ": " + call_.moves[i]->plan().to_string());
      }
    }
    for (const auto& back : call_.write_backs) {
      explanation->plans.push_back(std::to_string(back.operand) + " written back: " + back.plan->plan().to_string());
    }
    explanation->bytes = bytes_;
    explanation->why = decision_.reason;
    call_.explanation = std::move(explanation);
  }

  static bool is_stationary(const OperandRef& operand) {
    return operand.impl != nullptr && (is_parameter(*operand.tensor) || operand.impl->is_cast_parameter());
  }

  c10::intrusive_ptr<DTensorImpl> like(const SpecPtr& spec) const {
    const auto first = std::find_if(operands_.begin(), operands_.end(), [](const auto& ref) { return ref.impl; });
    return c10::make_intrusive<DTensorImpl>(AsyncTensor(), spec, first->impl->device());
  }

  const c10::OperatorHandle& op_;
  const OperatorTraits& traits_;
  c10::ArrayRef<c10::IValue> arguments_;
  c10::ArrayRef<OperandRef> operands_;
  bool numbers_keep_linear_;
  const DeviceMesh* mesh_ = nullptr;
  PreparedCall call_;
  std::optional<std::vector<GlobalMeta>> globals_;
  Decision decision_;
  int64_t bytes_ = 0;
};

/// The spec of the distributed tensor whose local tensor is `result`.
SpecPtr spec_of_result(const PreparedCall& call, size_t number, const at::Tensor& result) {
  const auto& mesh = call.operands[0]->mesh();
  if (call.is_fallback) {
    return TensorSpec::make(mesh, replicated(mesh), result.sizes(), result.strides(), result.scalar_type());
  }
  const auto& expected = call.expected[number];
  auto sizes = result.sizes().vec();
  for (size_t d = 0; d < expected.sizes.size(); ++d) {
    sizes[d] = expected.sizes[d] == -1 ? sizes[d] : expected.sizes[d];
  }
  return TensorSpec::make(mesh, expected.layout, sizes, result.scalar_type());
}

} // namespace

PreparedCall prepare(
    const c10::OperatorHandle& op,
    const OperatorTraits& traits,
    c10::ArrayRef<c10::IValue> arguments,
    c10::ArrayRef<OperandRef> operands,
    bool numbers_keep_linear) {
  const UntracedScope untraced;
  return Preparation(op, traits, arguments, operands, numbers_keep_linear).run();
}

PreparedOutput output_of_result(
    const PreparedCall& call,
    const OperatorSchema::Return& ret,
    size_t number,
    const at::Tensor& result) {
  PreparedOutput output;
  if (result.defined()) {
    output.spec = spec_of_result(call, number, result);
    output.is_view = ret.view_of >= 0;
    output.is_copy = output.is_view && !call.moves.empty();
    output.contiguous = output.spec->is_contiguous();
    output.like = c10::make_intrusive<DTensorImpl>(AsyncTensor(), output.spec, result.device());
  }
  return output;
}

} // namespace weft
