#pragma once

#include "weft/graph/analysis/trial_values.h"
#include "weft/propagation/call_key.h"
#include "weft/propagation/decide.h"

#include <memory>

namespace weft::graph {

/// Decides how the operators of a graph run on a mesh, by the same rules and costs as distributed tensors. Equal calls
/// are decided once.
class CallAnalysis {
 public:
  CallAnalysis(const DeviceMesh& mesh, const TrialValues& values) : mesh_(mesh), values_(values) {}

  /// The registered properties of an operator.
  const OperatorTraits& traits(const c10::OperatorHandle& op);
  /// The spec of a tensor that has a layout.
  SpecPtr spec(const Value* value) const;
  SpecPtr spec(const TensorType& type, const Layout& layout) const;

  /// A random operator runs on replicated tensors, so that every rank draws the numbers that a single device would
  /// draw, provided that all ranks start from the same seed. `is_stationary(value)` tells whether a tensor should keep
  /// its layout. The operands of the decision are those of `tensor_operands`. `decomposes` permits the decision to run
  /// the call as other operators.
  std::shared_ptr<const Decision> decide(
      const Node& node,
      const std::function<bool(const Value*)>& is_stationary,
      bool decomposes = true);

  /// The rule of this call, for its tensors in the order of `tensor_operands`; none if there is no rule, or if the rule
  /// is about the elements of lists.
  std::optional<Rule> rule(const Node& node);

  /// A tensor among a node's arguments: the index of the argument, the index in a list or -1, and the index of the
  /// operand.
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
  /// The arguments as IValues: numbers are their trial values, and one placeholder tensor replaces every tensor.
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
