#include "weft/tensor/prepare.h"

#include "weft/propagation/choose.h"
#include "weft/tensor/boundary.h"
#include "weft/tensor/global_meta.h"
#include "weft/tensor/in_backward.h"

#include <algorithm>

namespace weft {

namespace {

/// Some of a call's tensors, to which one rule applies: all of them, or one element of every list.
struct Part {
  std::vector<size_t> operands; // by number, those that are read first, out= ones last
  std::vector<Operand> metas;   // of those that are read
  std::vector<OpCall::Range> ranges;
};

class Preparation {
 public:
  Preparation(
      const c10::OperatorHandle& op,
      const OperatorTraits& traits,
      c10::ArrayRef<c10::IValue> arguments,
      c10::ArrayRef<OperandRef> operands)
      : op_(op), traits_(traits), arguments_(arguments), operands_(operands) {}

  PreparedCall run() {
    take_specs();
    if (decomposes()) {
      return std::move(call_);
    }
    targets_.assign(operands_.size(), all_replicated(*mesh_));
    sources_ = call_.operands;
    if (traits_.rule != nullptr && traits_.rule->per_element) {
      prepare_elements();
    } else {
      prepare_whole();
    }
    compile_moves();
    describe_outputs();
    explain();
    return std::move(call_);
  }

 private:
  const std::string& name() const {
    return op_.schema().name();
  }
  bool is_written(const OperandRef& ref) const {
    const auto& written = traits_.schema.written;
    return std::find(written.begin(), written.end(), ref.argument) != written.end();
  }

  void take_specs() {
    for (const auto& ref : operands_) {
      if (ref.impl == nullptr) {
        // Steps of an optimizer, in a list, are counted by every rank alike.
        const bool is_number_in_list = ref.position >= 0 && ref.tensor->dim() == 0;
        TORCH_CHECK_VALUE(
            !is_written(ref) || is_number_in_list, "[", name(),
            "] a distributed result cannot be stored in a plain tensor, but argument '",
            op_.schema().arguments()[ref.argument].name(), "' is one of shape ", ref.tensor->sizes(),
            ". Distribute it with distribute_tensor or from_local.");
        continue;
      }
      TORCH_CHECK_VALUE(
          !ref.impl->is_copy_of_base() || !is_written(ref), "[", name(), "] argument '",
          op_.schema().arguments()[ref.argument].name(), "' (", *ref.impl->spec(),
          ") is a view that had to be redistributed, so that writing to it would not change the tensor it was taken "
          "of. "
          "Redistribute that tensor first, or clone the view.");
      const auto& mesh = ref.impl->spec()->mesh();
      TORCH_CHECK_VALUE(
          mesh_ == nullptr || *mesh_ == mesh, "[", name(), "] all tensors must be on the same mesh, but got ",
          mesh_->to_string(), " and ", mesh.to_string(), ". Bring them to one mesh through full_tensor.");
      mesh_ = &mesh;
    }
    TORCH_INTERNAL_ASSERT(mesh_ != nullptr);
    // A view of a part that is empty needs no place in the mesh.
    TORCH_CHECK_VALUE(
        mesh_->is_member() || traits_.schema.is_view, "[", name(), "] rank ", mesh_->world()->rank(), " is not in ",
        mesh_->to_string(), " and cannot compute on it. Call operators on its ranks only.");
    for (const auto& ref : operands_) {
      call_.operands.push_back(
          ref.impl != nullptr
              ? ref.impl->spec()
              : TensorSpec::make(*mesh_, all_replicated(*mesh_), ref.tensor->sizes(), ref.tensor->scalar_type()));
    }
  }

  bool decomposes() {
    const auto* decomposition = traits_.decomposition;
    if (decomposition == nullptr) {
      return false;
    }
    const auto part = whole_part();
    if (!decomposition->applies(OpCall(op_.schema(), arguments_, part.metas, part.ranges), call_.operands)) {
      return false;
    }
    call_.decomposition = decomposition;
    return true;
  }

  Part whole_part() const {
    Part part;
    part.ranges.assign(arguments_.size(), {0, 0});
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (!traits_.schema.is_out[operands_[i].argument]) {
        add_to(part, i);
      }
    }
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (traits_.schema.is_out[operands_[i].argument]) {
        part.operands.push_back(i);
      }
    }
    return part;
  }

  void add_to(Part& part, size_t i) const {
    const auto& ref = operands_[i];
    auto& range = part.ranges[ref.argument];
    range = {range.count == 0 ? static_cast<int64_t>(part.metas.size()) : range.begin, range.count + 1};
    part.metas.push_back({ref.tensor->sizes(), ref.tensor->scalar_type()});
    part.operands.push_back(i);
  }

  std::optional<Rule> rule_of(const Part& part) const {
    if (traits_.rule == nullptr) {
      return std::nullopt;
    }
    auto rule = traits_.rule->rule(OpCall(op_.schema(), arguments_, part.metas, part.ranges));
    if (rule) {
      // What is stored in an out= argument is cut as the output is.
      for (size_t out = 0; part.metas.size() + out < part.operands.size(); ++out) {
        rule->inputs.push_back(rule->outputs[out]);
        rule->unread.push_back(static_cast<int64_t>(part.metas.size() + out));
      }
    }
    return rule;
  }

  Strategy choose_for(const Rule& rule, const Part& part) {
    std::vector<PlacedOperand> placed;
    std::vector<StoredOutput> stored;
    for (size_t k = 0; k < part.operands.size(); ++k) {
      const auto i = part.operands[k];
      placed.push_back({call_.operands[i], is_stationary(operands_[i])});
      has_stationary_ = has_stationary_ || placed.back().is_stationary;
      if (is_written(operands_[i]) && operands_[i].impl != nullptr) {
        stored.push_back({output_stored_in(operands_[i].argument, rule), static_cast<int64_t>(k)});
      }
    }
    auto strategy = choose(rule, placed, stored);
    if (!strategy && in_backward()) {
      // A derivative formula works in place on tensors of its own: it cannot redistribute them first.
      for (auto& output : stored) {
        output.may_move = true;
      }
      strategy = choose(rule, placed, stored);
    }
    const auto keeps_layout = !stored.empty() ? stored[0].operand : !rule.updated.empty() ? rule.updated[0] : 0;
    TORCH_CHECK_VALUE(
        strategy.has_value(), "[", name(), "] the result cannot be stored in ", placed[keeps_layout].spec->to_string(),
        ", whose placements stay as they are. Redistribute it first, or use the functional form.");
    for (size_t k = 0; k < part.operands.size(); ++k) {
      const auto i = part.operands[k];
      targets_[i] = strategy->inputs[k];
      const auto& unread = rule.unread;
      if (std::find(unread.begin(), unread.end(), static_cast<int64_t>(k)) != unread.end()) {
        sources_[i] = unread_spec(call_.operands[i]);
      }
    }
    return std::move(*strategy);
  }

  /// The output that an argument keeps: that of the return it is; of an operator that returns nothing, the first.
  int64_t output_stored_in(int64_t argument, const Rule& rule) const {
    const auto& returns = traits_.schema.returns;
    for (size_t r = 0; r < returns.size(); ++r) {
      if (returns[r].stored_in == argument) {
        return std::min(static_cast<int64_t>(r), static_cast<int64_t>(rule.outputs.size()) - 1);
      }
    }
    return returns.empty() && !rule.outputs.empty() ? 0 : StoredOutput::kNone;
  }

  void prepare_whole() {
    const auto part = whole_part();
    auto rule = rule_of(part);
    if (!rule) {
      call_.is_fallback = true;
      reason_ = traits_.rule == nullptr ? "no rule for this operator: its inputs are replicated"
                                        : "no rule for these arguments: the inputs are replicated";
      return;
    }
    const auto strategy = choose_for(*rule, part);
    reason_ = "by the rule " + rule->to_string();
    take_size_arguments(*rule, strategy);
    take_lookup(*rule, strategy, part);
    for (size_t o = 0; o < rule->outputs.size(); ++o) {
      expect_output(*rule, rule->outputs[o], strategy.outputs[o]);
    }
  }

  void expect_output(const Rule& rule, const Rule::Dims& dims, const Layout& layout) {
    auto& expected = call_.expected.emplace_back();
    expected.layout = layout;
    for (const auto& dim : dims) {
      expected.sizes.push_back(dim.empty() ? -1 : rule.size_of(dim));
    }
  }

  void take_size_arguments(const Rule& rule, const Strategy& strategy) {
    for (size_t a = 0; a < rule.size_arguments.size(); ++a) {
      const auto& argument = rule.size_arguments[a];
      const auto index = op_.schema().argumentIndexWithName(argument.name);
      TORCH_INTERNAL_ASSERT(index.has_value(), name(), " has no argument ", argument.name);
      const auto shape =
          local_shape_and_offset(argument.sizes, strategy.size_arguments[a], mesh_->shape(), mesh_->coordinate()).shape;
      const bool is_list = arguments_[*index].isList();
      call_.local_arguments.push_back(
          {*index, is_list ? c10::IValue(std::vector<int64_t>(shape.begin(), shape.end())) : c10::IValue(shape[0])});
    }
  }

  void take_lookup(const Rule& rule, const Strategy& strategy, const Part& part) {
    if (strategy.lookup_cuts.empty()) {
      return;
    }
    Placements placements(mesh_->ndim(), Replicate());
    for (const auto m : strategy.lookup_cuts) {
      placements[m] = Shard(0);
    }
    const auto held = local_shape_and_offset(
        {rule.sizes[rule.lookup->factor]}, Layout(placements), mesh_->shape(), mesh_->coordinate());
    const auto factor = rule.lookup->factor;
    PreparedCall::Lookup lookup{
        .operand = static_cast<int64_t>(part.operands[rule.lookup->operand]),
        .begin = held.offset[0],
        .length = held.shape[0],
        .size = rule.sizes[factor],
        .masks_output = rule.is_reduced(factor),
        .table = 0,
        .table_dim = 0};
    for (size_t i = 0; i < rule.inputs.size(); ++i) {
      const auto& dims = rule.inputs[i];
      const auto found = std::find(dims.begin(), dims.end(), Rule::Dim{factor});
      if (found != dims.end()) {
        lookup.table = static_cast<int64_t>(part.operands[i]);
        lookup.table_dim = found - dims.begin();
      }
    }
    call_.lookup = lookup;
  }

  void prepare_elements() {
    size_t count = 0;
    for (const auto& ref : operands_) {
      count = std::max(count, static_cast<size_t>(ref.position + 1));
    }
    for (size_t element = 0; element < count; ++element) {
      Part part;
      part.ranges.assign(arguments_.size(), {0, 0});
      for (size_t i = 0; i < operands_.size(); ++i) {
        if (operands_[i].position < 0 || operands_[i].position == static_cast<int32_t>(element)) {
          add_to(part, i);
        }
      }
      const auto rule = rule_of(part);
      TORCH_INTERNAL_ASSERT(rule && rule->outputs.size() == 1, name(), " has no rule by element");
      const auto strategy = choose_for(*rule, part);
      if (element == 0) {
        reason_ = "each element by its own rule, the first by " + rule->to_string();
      }
      expect_output(*rule, rule->outputs[0], strategy.outputs[0]);
    }
  }

  void compile_moves() {
    PreparedCall::Moves moves(operands_.size());
    PreparedCall::Moves returns_home(operands_.size());
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (sources_[i]->layout() == targets_[i] || call_.operands[i]->layout() == targets_[i]) {
        continue;
      }
      const auto target = sources_[i]->with(targets_[i]);
      moves[i] = compile(sources_[i], target);
      if (is_written(operands_[i])) {
        returns_home[i] = compile(target, call_.operands[i]);
      }
    }
    const auto any = [](const PreparedCall::Moves& all) {
      return std::any_of(all.begin(), all.end(), [](const auto& plan) { return plan != nullptr; });
    };
    if (any(moves)) {
      call_.moves = std::move(moves);
    }
    if (any(returns_home)) {
      call_.returns_home = std::move(returns_home);
    }
  }

  std::shared_ptr<const CompiledPlan> compile(const SpecPtr& source, const SpecPtr& target) {
    auto compiled = std::make_shared<const CompiledPlan>(plan(source, target));
    for (const auto& step : compiled->plan().steps) {
      call_.communicates = call_.communicates || communicates(step.kind);
    }
    bytes_ += static_cast<int64_t>(received_bytes(compiled->plan()));
    return compiled;
  }

  bool is_moved(int64_t argument) const {
    for (size_t i = 0; i < operands_.size() && !call_.moves.empty(); ++i) {
      if (operands_[i].argument == argument && call_.moves[i] != nullptr) {
        return true;
      }
    }
    return false;
  }

  void describe_outputs() {
    if (call_.is_fallback) {
      return; // its results are those of a single device
    }
    const auto globals = global_results(op_, arguments_);
    if (!globals) {
      return;
    }
    call_.outputs_known = true;
    size_t next = 0;
    for (const auto& ret : traits_.schema.returns) {
      const auto last = &ret == &traits_.schema.returns.back();
      // A list among the returns stands alone in all operators that have one.
      const auto count = ret.is_tensor ? (last && traits_.schema.returns.size() == 1 ? globals->size() : 1) : 0;
      for (size_t k = 0; k < count; ++k, ++next) {
        if (ret.stored_in < 0) {
          call_.outputs.push_back(output(next, (*globals)[next], ret));
        }
      }
    }
  }

  PreparedOutput output(size_t number, const GlobalMeta& global, const OperatorSchema::Return& ret) const {
    if (!global.defined) {
      return {};
    }
    TORCH_INTERNAL_ASSERT(number < call_.expected.size(), name(), " gives more tensors than its rule has");
    const auto& expected = call_.expected[number];
    bool fits = expected.sizes.size() == global.sizes.size();
    for (size_t d = 0; fits && d < global.sizes.size(); ++d) {
      fits = expected.sizes[d] == -1 || expected.sizes[d] == global.sizes[d];
    }
    TORCH_INTERNAL_ASSERT(
        fits, "the rule of ", name(), " has the sizes ", c10::IntArrayRef(expected.sizes), " for an output of ",
        c10::IntArrayRef(global.sizes));
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
    for (const auto& layout : targets_) {
      explanation->strategy += layout.to_string() + " ";
    }
    explanation->strategy += "->";
    for (const auto& expected : call_.expected) {
      explanation->strategy += " " + expected.layout.to_string();
    }
    if (call_.is_fallback) {
      explanation->strategy += " " + all_replicated(*mesh_).to_string();
    }
    for (size_t i = 0; i < call_.moves.size(); ++i) {
      if (call_.moves[i]) {
        explanation->plans.push_back(std::to_string(i) + ": " + call_.moves[i]->plan().to_string());
      }
    }
    explanation->bytes = bytes_;
    explanation->why = reason_ + (has_stationary_ ? "; parameters stay where they are" : "");
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
  const DeviceMesh* mesh_ = nullptr;
  PreparedCall call_;
  std::vector<SpecPtr> sources_; // of the operands as they are read
  std::vector<Layout> targets_;
  std::string reason_;
  int64_t bytes_ = 0;
  bool has_stationary_ = false;
};

/// Where a local result is a part of the whole: what it is a part of.
SpecPtr spec_of_result(const PreparedCall& call, size_t number, const at::Tensor& result) {
  const auto& mesh = call.operands[0]->mesh();
  if (call.is_fallback) {
    return TensorSpec::make(mesh, all_replicated(mesh), result.sizes(), result.strides(), result.scalar_type());
  }
  const auto& expected = call.expected[number];
  auto sizes = result.sizes().vec();
  for (size_t d = 0; d < sizes.size(); ++d) {
    sizes[d] = expected.sizes[d] == -1 ? sizes[d] : expected.sizes[d];
  }
  return TensorSpec::make(mesh, expected.layout, sizes, result.scalar_type());
}

} // namespace

OperatorTraits::OperatorTraits(const c10::OperatorHandle& op)
    : schema(op.schema()),
      rule(RuleRegistry::instance().find(op.schema().name())),
      decomposition(find_decomposition(c10::toString(op.operator_name()))) {}

PreparedCall prepare(
    const c10::OperatorHandle& op,
    const OperatorTraits& traits,
    c10::ArrayRef<c10::IValue> arguments,
    c10::ArrayRef<OperandRef> operands) {
  return Preparation(op, traits, arguments, operands).run();
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
