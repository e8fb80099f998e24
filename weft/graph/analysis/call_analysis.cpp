#include "weft/graph/analysis/call_analysis.h"

#include "weft/core/layout_algebra.h"
#include "weft/propagation/is_random.h"
#include "weft/propagation/linear_numbers.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <bit>

namespace weft::graph {

namespace {

/// Replaces every tensor among the arguments: rules get the sizes of tensors separately.
const at::Tensor& some_tensor() {
  static const auto tensor = at::empty({0}, at::device(at::kMeta));
  return tensor;
}

/// The same key as for eager calls, plus the numbers, because some rules read their values (a dropout with p=0, say).
void add_value(CallKey& key, const c10::IValue& value) {
  if (value.isDouble()) {
    key.add(CallKey::kDouble);
    key.add(std::bit_cast<uint64_t>(value.toDouble()));
  } else if (value.isTensor()) {
    key.add(CallKey::kDouble + 1);
  } else if (value.isComplexDouble()) {
    key.add(std::bit_cast<uint64_t>(value.toComplexDouble().real()));
    key.add(std::bit_cast<uint64_t>(value.toComplexDouble().imag()));
  } else if (value.isList()) {
    const auto list = value.toListRef();
    key.add(list.size());
    for (const auto& item : list) {
      add_value(key, item);
    }
  } else if (value.isGenerator()) {
    key.add(CallKey::kNone);
  } else {
    key.add_static(value);
  }
}

/// Whether an argument of the operator tells its rule that the operator draws no random numbers.
bool may_draw_nothing(const c10::FunctionSchema& schema) {
  return std::any_of(schema.arguments().begin(), schema.arguments().end(), [](const auto& argument) {
    return argument.name() == "dropout_p" || argument.name() == "train" || argument.name() == "training";
  });
}

/// Replicates all operands, so that every rank draws the numbers that a single device would draw.
Decision drawn_alike(const DeviceMesh& mesh, c10::ArrayRef<CallOperand> operands) {
  Decision decision;
  for (const auto& operand : operands) {
    decision.sources.push_back(operand.spec);
    decision.targets.push_back(replicated(mesh));
  }
  decision.is_fallback = true;
  decision.reason = "random numbers: every rank draws those of the global tensor";
  return decision;
}

} // namespace

const OperatorTraits& CallAnalysis::traits(const c10::OperatorHandle& op) {
  auto& found = traits_[&op.schema()];
  if (found == nullptr) {
    found = std::make_unique<OperatorTraits>(op);
  }
  return *found;
}

SpecPtr CallAnalysis::spec(const TensorType& type, const Layout& layout) const {
  return TensorSpec::make(mesh_, layout, values_.of(type.sizes), type.dtype);
}

SpecPtr CallAnalysis::spec(const Value* value) const {
  TORCH_INTERNAL_ASSERT(value->layout.has_value(), "%", value->name(), " has no layout");
  return spec(value->tensor(), *value->layout);
}

c10::SmallVector<CallAnalysis::TensorOperand, 4> CallAnalysis::tensor_operands(const Node& node) {
  c10::SmallVector<TensorOperand, 4> result;
  for (size_t a = 0; a < node.arguments().size(); ++a) {
    const auto& argument = node.arguments()[a];
    if (argument.is_operand() && node.operand(argument.operand())->is_tensor()) {
      result.push_back({static_cast<int32_t>(a), -1, argument.operand()});
    } else if (argument.is_list()) {
      for (size_t k = 0; k < argument.elements().size(); ++k) {
        const auto& element = argument.elements()[k];
        if (element.is_operand() && node.operand(element.operand())->is_tensor()) {
          result.push_back({static_cast<int32_t>(a), static_cast<int32_t>(k), element.operand()});
        }
      }
    }
  }
  return result;
}

std::shared_ptr<const Decision> CallAnalysis::decide(
    const Node& node,
    const std::function<bool(const Value*)>& is_stationary,
    bool decomposes) {
  const auto& op = *node.op();
  const auto& operator_traits = traits(op);
  std::vector<CallOperand> operands;
  CallKey key;
  key.add(reinterpret_cast<uintptr_t>(&op.schema()));
  key.add(decomposes ? 1 : 0);
  for (const auto& [argument, position, operand] : tensor_operands(node)) {
    const auto* value = node.operand(operand);
    operands.push_back({argument, position, spec(value), is_stationary(value)});
    key.add(reinterpret_cast<uintptr_t>(operands.back().spec.get()));
    key.add(operands.back().is_stationary ? 1 : 0);
  }
  const auto arguments = arguments_of(node);
  for (const auto& value : arguments) {
    add_value(key, value);
  }
  auto& decision = decisions_[key];
  if (decision == nullptr) {
    decision = std::make_shared<const Decision>(decided(op, operator_traits, arguments, operands, decomposes));
  }
  return decision;
}

std::optional<Rule> CallAnalysis::rule(const Node& node) {
  const auto& op = *node.op();
  const auto* entry = traits(op).rule;
  if (entry == nullptr || entry->per_element || (is_random(op) && !may_draw_nothing(op.schema()))) {
    return std::nullopt;
  }
  const auto places = tensor_operands(node);
  std::vector<SpecPtr> specs;
  for (const auto& place : places) {
    specs.push_back(spec(node.operand(place.operand)->tensor(), replicated(mesh_)));
  }
  std::vector<Operand> operands;
  std::vector<OpCall::Range> ranges(node.arguments().size(), {0, 0});
  for (size_t i = 0; i < places.size(); ++i) {
    auto& range = ranges[places[i].argument];
    range = {range.count == 0 ? static_cast<int64_t>(i) : range.begin, range.count + 1};
    operands.push_back({specs[i]->sizes(), specs[i]->dtype(), specs[i].get()});
  }
  const auto arguments = arguments_of(node);
  return entry->rule(OpCall(op.schema(), arguments, operands, ranges));
}

Decision CallAnalysis::decided(
    const c10::OperatorHandle& op,
    const OperatorTraits& operator_traits,
    c10::ArrayRef<c10::IValue> arguments,
    c10::ArrayRef<CallOperand> operands,
    bool decomposes) const {
  if (!is_random(op)) {
    auto allowed = operator_traits;
    const auto* decomposition = operator_traits.decomposition;
    allowed.decomposition =
        decomposes && decomposition != nullptr && decomposition->is_in_programs ? decomposition : nullptr;
    return weft::decide(
        op, allowed, arguments, operands, /*may_redistribute_stored=*/false, keep_linear(op.schema(), arguments));
  }
  if (operator_traits.rule != nullptr && may_draw_nothing(op.schema())) {
    auto decision = weft::decide(
        op, operator_traits, arguments, operands, /*may_redistribute_stored=*/false,
        keep_linear(op.schema(), arguments));
    if (!decision.is_fallback && decision.decomposition == nullptr) {
      return decision;
    }
  }
  return drawn_alike(mesh_, operands);
}

std::vector<c10::IValue> CallAnalysis::arguments_of(const Node& node) const {
  const auto& formals = node.op()->schema().arguments();
  std::vector<c10::IValue> result;
  result.reserve(formals.size());
  for (size_t i = 0; i < formals.size(); ++i) {
    result.push_back(value_of(node, node.arguments()[i], formals[i]));
  }
  return result;
}

c10::IValue CallAnalysis::value_of(const Node& node, const Argument& argument, const c10::Argument& formal) const {
  switch (argument.kind()) {
    case Argument::Kind::Absent:
      return formal.default_value().value_or(c10::IValue());
    case Argument::Kind::Constant:
      return argument.constant();
    case Argument::Kind::Operand: {
      const auto* value = node.operand(argument.operand());
      return value->is_tensor() ? c10::IValue(some_tensor()) : values_.of(value);
    }
    case Argument::Kind::List:
      break;
  }
  auto list = c10::impl::GenericList(c10::AnyType::get());
  bool are_integers = true;
  for (const auto& element : argument.elements()) {
    list.push_back(value_of(node, element, formal));
    are_integers = are_integers && list.get(list.size() - 1).isInt();
  }
  if (!are_integers) {
    return list;
  }
  c10::List<int64_t> integers;
  for (size_t i = 0; i < list.size(); ++i) {
    integers.push_back(list.get(i).toInt());
  }
  return integers;
}

} // namespace weft::graph
