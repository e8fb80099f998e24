#include "weft/propagation/decide.h"

#include "weft/core/layout_algebra.h"

#include <algorithm>

namespace weft {

namespace {

/// The operands of a call that one rule application covers: all of them, or one element of every list.
struct Subset {
  std::vector<size_t> operands; // indices: first the operands that are read, then the out= ones
  std::vector<Operand> metas;   // of the operands that are read
  std::vector<OpCall::Range> ranges;
};

class Deciding {
 public:
  Deciding(
      const c10::OperatorHandle& op,
      const OperatorTraits& traits,
      c10::ArrayRef<c10::IValue> arguments,
      c10::ArrayRef<CallOperand> operands,
      bool may_redistribute_stored,
      bool numbers_keep_linear)
      : op_(op),
        traits_(traits),
        arguments_(arguments),
        operands_(operands),
        may_redistribute_stored_(may_redistribute_stored),
        numbers_keep_linear_(numbers_keep_linear),
        mesh_(operands[0].spec->mesh()) {}

  Decision run() {
    if (decomposes()) {
      return std::move(result_);
    }
    result_.targets.assign(operands_.size(), replicated(mesh_));
    for (size_t i = 0; i < operands_.size(); ++i) {
      result_.sources.push_back(operands_[i].spec);
      // An optimizer's step counts, in a list of plain numbers, are counted up on every rank whatever the layouts.
      const bool is_count = operands_[i].is_plain && operands_[i].position >= 0;
      if (traits_.schema.writes(operands_[i].argument) && !is_count) {
        result_.written.push_back(i);
      }
    }
    if (traits_.rule != nullptr && traits_.rule->per_element) {
      decide_elements();
    } else {
      decide_call();
    }
    if (has_stationary_) {
      result_.reason += "; parameters stay where they are";
    }
    return std::move(result_);
  }

 private:
  const std::string& name() const {
    return op_.schema().name();
  }

  bool decomposes() {
    const auto* decomposition = traits_.decomposition;
    if (decomposition == nullptr) {
      return false;
    }
    const auto subset = all_operands();
    std::vector<SpecPtr> specs;
    for (const auto& operand : operands_) {
      specs.push_back(operand.spec);
    }
    if (!decomposition->applies(OpCall(op_.schema(), arguments_, subset.metas, subset.ranges), specs)) {
      return false;
    }
    result_.decomposition = decomposition;
    return true;
  }

  Subset all_operands() const {
    Subset subset;
    subset.ranges.assign(arguments_.size(), {0, 0});
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (!traits_.schema.is_out[operands_[i].argument]) {
        add_to(subset, i);
      }
    }
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (traits_.schema.is_out[operands_[i].argument]) {
        subset.operands.push_back(i);
      }
    }
    return subset;
  }

  void add_to(Subset& subset, size_t i) const {
    const auto& ref = operands_[i];
    auto& range = subset.ranges[ref.argument];
    range = {range.count == 0 ? static_cast<int64_t>(subset.metas.size()) : range.begin, range.count + 1};
    subset.metas.push_back({ref.spec->sizes(), ref.spec->dtype(), ref.spec.get()});
    subset.operands.push_back(i);
  }

  std::optional<Rule> rule_of(const Subset& subset) const {
    if (traits_.rule == nullptr) {
      return std::nullopt;
    }
    auto rule = traits_.rule->rule(OpCall(op_.schema(), arguments_, subset.metas, subset.ranges));
    if (rule && !numbers_keep_linear_) {
      take_no_terms(*rule);
    }
    if (rule && subset.metas.size() < subset.operands.size()) {
      forbid_factors_of_outputs_alone(*rule);
      // An out= argument has the sharding of the output that is stored in it.
      for (size_t out = 0; subset.metas.size() + out < subset.operands.size(); ++out) {
        rule->inputs.push_back(rule->outputs[out]);
        rule->unread.push_back(static_cast<int64_t>(subset.metas.size() + out));
      }
    }
    return rule;
  }

  /// Forbids to shard what no operand that is read has, as the number of tensors that cat joins: the local operator computes all
  /// of it, although an out= argument may be sharded along it.
  static void forbid_factors_of_outputs_alone(Rule& rule) {
    for (size_t f = 0; f < rule.sizes.size(); ++f) {
      const auto factor = static_cast<Rule::Factor>(f);
      const auto has = [&](const Rule::Dims& dims) { return Rule::has(dims, factor); };
      const bool is_read =
          std::any_of(rule.inputs.begin(), rule.inputs.end(), has) || (rule.lookup && rule.lookup->factor == factor);
      if (!is_read && !rule.is_unsharded(factor)) {
        rule.unsharded.push_back(factor);
      }
    }
  }

  /// Makes the rule one that neither passes partial operands on nor adds a term on every rank.
  static void take_no_terms(Rule& rule) {
    rule.linear.clear();
    rule.increasing.clear();
    rule.decreasing.clear();
    for (size_t f = 0; f < rule.sizes.size() && !rule.added.empty(); ++f) {
      const auto factor = static_cast<Rule::Factor>(f);
      if (rule.is_reduced(factor) && !rule.is_unsharded(factor)) {
        rule.unsharded.push_back(factor);
      }
    }
  }

  Strategy choose_for(const Rule& rule, const Subset& subset) {
    std::vector<PlacedOperand> placed;
    std::vector<StoredOutput> stored;
    for (size_t k = 0; k < subset.operands.size(); ++k) {
      const auto i = subset.operands[k];
      placed.push_back({operands_[i].spec, operands_[i].is_stationary});
      has_stationary_ = has_stationary_ || placed.back().is_stationary;
      if (contains(rule.updated, k) && !operands_[i].is_plain && !result_.is_written(i)) {
        result_.written.push_back(i);
      }
      if (result_.is_written(i)) {
        stored.push_back({output_stored_in(operands_[i].argument, rule), static_cast<int64_t>(k)});
      }
    }
    auto strategy = choose(rule, placed, stored);
    if (!strategy && may_redistribute_stored_) {
      for (auto& output : stored) {
        output.may_redistribute = true;
      }
      strategy = choose(rule, placed, stored);
    }
    TORCH_CHECK_VALUE(
        strategy.has_value(), "[", name(), "] the result cannot be stored in ",
        placed[stored.empty() ? 0 : stored[0].operand].spec->to_string(),
        ", whose placements stay as they are. Redistribute it first, or use the functional form.");
    for (size_t k = 0; k < subset.operands.size(); ++k) {
      const auto i = subset.operands[k];
      result_.targets[i] = strategy->inputs[k];
      if (contains(rule.unread, k)) {
        result_.sources[i] = unread_spec(operands_[i].spec);
        result_.unread.push_back(i);
      }
    }
    return std::move(*strategy);
  }

  static bool contains(const std::vector<int64_t>& numbers, size_t number) {
    return std::find(numbers.begin(), numbers.end(), static_cast<int64_t>(number)) != numbers.end();
  }

  /// The output that is stored in an argument: that of the return aliasing it; the first output if the operator returns
  /// nothing.
  int64_t output_stored_in(int64_t argument, const Rule& rule) const {
    const auto& returns = traits_.schema.returns;
    for (size_t r = 0; r < returns.size(); ++r) {
      if (returns[r].stored_in == argument) {
        return std::min(static_cast<int64_t>(r), static_cast<int64_t>(rule.outputs.size()) - 1);
      }
    }
    return returns.empty() && !rule.outputs.empty() ? 0 : StoredOutput::kNone;
  }

  void decide_call() {
    const auto subset = all_operands();
    auto rule = rule_of(subset);
    if (!rule) {
      result_.is_fallback = true;
      result_.reason = traits_.rule == nullptr ? "no rule for this operator: its inputs are replicated"
                                               : "no rule for these arguments: the inputs are replicated";
      return;
    }
    const auto strategy = choose_for(*rule, subset);
    result_.reason = (traits_.rule->is_registered ? "by the registered rule " : "by the rule ") + rule->to_string();
    take_size_arguments(*rule, strategy);
    take_lookup(*rule, strategy, subset);
    for (size_t o = 0; o < rule->outputs.size(); ++o) {
      expect_output(*rule, rule->outputs[o], strategy.outputs[o]);
    }
  }

  void expect_output(const Rule& rule, const Rule::Dims& dims, const Layout& layout) {
    auto& expected = result_.expected.emplace_back();
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
      result_.size_arguments.push_back({*index, argument.sizes, strategy.size_arguments[a]});
    }
  }

  void take_lookup(const Rule& rule, const Strategy& strategy, const Subset& subset) {
    if (strategy.lookup_dims.empty()) {
      return;
    }
    auto layout = replicated(mesh_);
    for (const auto m : strategy.lookup_dims) {
      layout = layout.with(m, Shard(0));
    }
    const auto factor = rule.lookup->factor;
    Decision::Lookup lookup{
        .operand = static_cast<int64_t>(subset.operands[rule.lookup->operand]),
        .size = rule.sizes[factor],
        .layout = layout,
        .masks_output = rule.is_reduced(factor)};
    for (size_t i = 0; i < rule.inputs.size(); ++i) {
      const auto& dims = rule.inputs[i];
      const auto found = std::find(dims.begin(), dims.end(), Rule::Dim{factor});
      if (found != dims.end()) {
        lookup.table = static_cast<int64_t>(subset.operands[i]);
        lookup.table_dim = found - dims.begin();
      }
    }
    result_.lookup = lookup;
  }

  void decide_elements() {
    size_t count = 0;
    for (const auto& ref : operands_) {
      count = std::max(count, static_cast<size_t>(ref.position + 1));
    }
    for (size_t element = 0; element < count; ++element) {
      Subset subset;
      subset.ranges.assign(arguments_.size(), {0, 0});
      for (size_t i = 0; i < operands_.size(); ++i) {
        if (operands_[i].position < 0 || operands_[i].position == static_cast<int32_t>(element)) {
          add_to(subset, i);
        }
      }
      const auto rule = rule_of(subset);
      TORCH_INTERNAL_ASSERT(rule && rule->outputs.size() == 1, name(), " has no rule by element");
      const auto strategy = choose_for(*rule, subset);
      if (element == 0) {
        result_.reason = "each element by its own rule, the first by " + rule->to_string();
      }
      expect_output(*rule, rule->outputs[0], strategy.outputs[0]);
    }
  }

  const c10::OperatorHandle& op_;
  const OperatorTraits& traits_;
  c10::ArrayRef<c10::IValue> arguments_;
  c10::ArrayRef<CallOperand> operands_;
  bool may_redistribute_stored_;
  bool numbers_keep_linear_;
  const DeviceMesh& mesh_;
  Decision result_;
  bool has_stationary_ = false;
};

} // namespace

Decision decide(
    const c10::OperatorHandle& op,
    const OperatorTraits& traits,
    c10::ArrayRef<c10::IValue> arguments,
    c10::ArrayRef<CallOperand> operands,
    bool may_redistribute_stored,
    bool numbers_keep_linear) {
  return Deciding(op, traits, arguments, operands, may_redistribute_stored, numbers_keep_linear).run();
}

} // namespace weft
