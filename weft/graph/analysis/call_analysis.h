#pragma once

#include "weft/graph/analysis/trial_values.h"
#include "weft/propagation/call_key.h"
#include "weft/propagation/decide.h"

#include <memory>

namespace weft::graph {

/// Decides how a graph's operators are run on a mesh, by the rules and costs that distributed tensors go by. Equal calls
/// are decided once.
class CallAnalysis {
 public:
  CallAnalysis(const DeviceMesh& mesh, const TrialValues& values) : mesh_(mesh), values_(values) {}

  /// What is known of an operator.
  const OperatorTraits& traits(const c10::OperatorHandle& op);
  /// The spec of a tensor that has a layout.
  SpecPtr spec(const Value* value) const;
  SpecPtr spec(const TensorType& type, const Layout& layout) const;

  /// A random operator runs on replicated tensors, so that every rank draws what a single device would, if all begin with
  /// the same seed. `is_stationary(value)`: whether a tensor should stay where it is. The decision's operands are those of
  /// `tensor_operands`. `decomposes`: whether it may be to run the call as other operators.
  std::shared_ptr<const Decision> decide(
      const Node& node,
      const std::function<bool(const Value*)>& is_stationary,
      bool decomposes = true);

  /// What the rules say of this call, for its tensors in the order of `tensor_operands`; none where they say nothing, or
  /// something of each element of lists.
  std::optional<Rule> rule(const Node& node);

  /// A tensor among a node's arguments: which argument, where in a list or -1, which of the node's operands.
  struct TensorOperand {
    int32_t argument;
    int32_t position;
    size_t operand;
  };
  /// In the order of the schema's arguments.
  static c10::SmallVector<TensorOperand, 4> tensor_operands(const Node& node);

 private:
  Decision decided(
      const c10::OperatorHandle& op,
      const OperatorTraits& operator_traits,
      c10::ArrayRef<c10::IValue> arguments,
      c10::ArrayRef<CallOperand> operands,
      bool decomposes) const;
  /// The arguments as values: numbers by their trial values, tensors by one that stands for all.
  std::vector<c10::IValue> arguments_of(const Node& node) const;
  c10::IValue value_of(const Node& node, const Argument& argument, const c10::Argument& formal) const;

  struct KeyHash {
    size_t operator()(const CallKey& key) const {
      return key.hash();
    }
  };

  DeviceMesh mesh_;
  const TrialValues& values_;
  std::unordered_map<const c10::FunctionSchema*, std::unique_ptr<OperatorTraits>> traits_;
  std::unordered_map<CallKey, std::shared_ptr<const Decision>, KeyHash> decisions_;
};
} // namespace weft::graph
