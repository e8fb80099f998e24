#pragma once

#include "weft/graph/ir/argument.h"
#include "weft/graph/ir/call_sharding.h"
#include "weft/graph/ir/origin.h"
#include "weft/graph/ir/scalar_function.h"
#include "weft/graph/ir/value.h"
#include "weft/redistribute/step.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>

namespace weft::graph {

class Graph;

/// A step of a redistribution. Copies share it because it is larger than the other kinds of targets.
class SharedStep {
 public:
  SharedStep(Step step) : step_(std::make_shared<const Step>(std::move(step))) {}
  const Step& operator*() const {
    return *step_;
  }
  const Step* operator->() const {
    return step_.get();
  }

 private:
  std::shared_ptr<const Step> step_;
};

/// What a node runs: an operator, a function of numbers, a step of a redistribution, or the return of the graph.
struct Return {};
using Target = std::variant<c10::OperatorHandle, const ScalarFunction*, SharedStep, Return>;

/// A call.
class Node {
 public:
  using Outputs = c10::SmallVector<Value*, 1>;

  const Target& target() const {
    return target_;
  }
  /// nullptr if the node does not call an operator.
  const c10::OperatorHandle* op() const {
    return std::get_if<c10::OperatorHandle>(&target_);
  }
  const Step* step() const {
    const auto* found = std::get_if<SharedStep>(&target_);
    return found == nullptr ? nullptr : &**found;
  }
  const ScalarFunction* function() const {
    const auto* found = std::get_if<const ScalarFunction*>(&target_);
    return found == nullptr ? nullptr : *found;
  }
  bool is_return() const {
    return std::holds_alternative<Return>(target_);
  }

  /// For an operator, one argument per argument of its schema.
  const Arguments& arguments() const {
    return arguments_;
  }
  /// Replaces an argument that has no operands by a constant.
  void set_constant(size_t argument, c10::IValue value);
  size_t operand_count() const {
    return operands_.size();
  }
  Value* operand(size_t number) const {
    return operands_[number].value;
  }
  void set_operand(size_t number, Value* value);

  /// The outputs in order; the tensors of a list are separate outputs. nullptr for a return without a
  /// value.
  const Outputs& outputs() const {
    return outputs_;
  }
  Value* output(size_t number = 0) const {
    return outputs_[number];
  }
  /// For every return of the operator, the number of outputs that are the elements of its list, or kSingle.
  static constexpr int64_t kSingle = -1;
  const std::vector<int64_t>& output_lists() const {
    return *output_lists_;
  }

  Graph& graph() const {
    return *graph_;
  }
  /// The id of the node, unique among all nodes that its graph ever had. It indexes NodeTable (value_table.h).
  size_t id() const {
    return id_;
  }
  /// The neighbours in the graph's order; nullptr at the ends.
  Node* next() const {
    return next_;
  }
  Node* previous() const {
    return previous_;
  }

  Origin origin;
  /// How an operator runs on local tensors; none if the call is the same on local tensors.
  std::shared_ptr<const CallSharding> sharding;

 private:
  friend class Graph;
  struct Operand {
    Value* value;
    size_t use; // its index among the value's uses
  };

  Node(Graph* graph, size_t id, Target target, Arguments arguments)
      : target_(std::move(target)), arguments_(std::move(arguments)), graph_(graph), id_(id) {}
  void drop_use(size_t number);

  Node* next_ = nullptr;
  Node* previous_ = nullptr;
  Target target_;
  Arguments arguments_;
  c10::SmallVector<Operand, 3> operands_;
  Outputs outputs_;
  const std::vector<int64_t>* output_lists_ = nullptr; // owned by the graph, or one of those that all graphs share
  Graph* graph_;
  size_t id_;
};

/// "aten::linear", "aten::add.Tensor", "_operator.floordiv", "all_gather", "return".
std::string target_name(const Node& node);
/// Whether an operator's node calls the operator of this name.
bool calls(const Node& node, std::string_view op);

} // namespace weft::graph
