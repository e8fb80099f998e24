#pragma once

#include "weft/core/layout.h"
#include "weft/graph/ir/argument.h"
#include "weft/graph/ir/call_sharding.h"
#include "weft/graph/ir/scalar_function.h"
#include "weft/graph/ir/type.h"
#include "weft/redistribute/step.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <list>
#include <memory>
#include <optional>
#include <unordered_set>

namespace weft::graph {

class Graph;
class Node;

/// A tensor or a number that a program computes: an input of the graph, or what a node gives.
class Value {
 public:
  /// A place where the value is used: operand `operand` of `node`.
  struct Use {
    Node* node;
    size_t operand;
  };

  const std::string& name() const {
    return name_;
  }
  /// nullptr for an input of the graph.
  Node* producer() const {
    return producer_;
  }
  const std::vector<Use>& uses() const {
    return uses_;
  }
  bool is_tensor() const {
    return std::holds_alternative<TensorType>(type);
  }
  const TensorType& tensor() const {
    return std::get<TensorType>(type);
  }

  Type type;
  /// How the tensor lies on the program's mesh. Without one the value is as it is: a whole program's, or a number.
  std::optional<Layout> layout;

 private:
  friend class Graph;
  friend class Node;
  Value(std::string name, Type type_, Node* producer)
      : type(std::move(type_)), name_(std::move(name)), producer_(producer) {}

  std::string name_;
  Node* producer_;
  std::vector<Use> uses_;
};

/// What a node does: an operator, a function of numbers, one step of a redistribution, or what ends the graph.
struct Return {};
using Target = std::variant<c10::OperatorHandle, const ScalarFunction*, Step, Return>;

/// Pairs of texts. Copies share them: a program's file says much of every node, and passes make nodes of nodes.
class Metadata {
 public:
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  Metadata() = default;
  Metadata(Pairs pairs) : pairs_(std::make_shared<const Pairs>(std::move(pairs))) {}
  Metadata(std::initializer_list<Pairs::value_type> pairs) : Metadata(Pairs(pairs)) {}

  Pairs::const_iterator begin() const {
    return pairs().begin();
  }
  Pairs::const_iterator end() const {
    return pairs().end();
  }
  const Pairs& pairs() const {
    static const Pairs none;
    return pairs_ == nullptr ? none : *pairs_;
  }

 private:
  std::shared_ptr<const Pairs> pairs_;
};

/// Where a node comes from, for people and for plans.
struct Origin {
  std::string module;      // "layers.0.attention.wq"; empty for the model itself
  std::string module_type; // "torch.nn.modules.linear.Linear"
  /// What the program's file says of it beside, kept as it is: "stack_trace", "nn_module_stack", ...
  Metadata metadata;
};

/// A call.
class Node {
 public:
  const Target& target() const {
    return target_;
  }
  /// nullptr where the node is no operator.
  const c10::OperatorHandle* op() const {
    return std::get_if<c10::OperatorHandle>(&target_);
  }
  const Step* step() const {
    return std::get_if<Step>(&target_);
  }
  const ScalarFunction* function() const {
    const auto* found = std::get_if<const ScalarFunction*>(&target_);
    return found == nullptr ? nullptr : *found;
  }
  bool is_return() const {
    return std::holds_alternative<Return>(target_);
  }

  /// Of an operator, one per argument of its schema.
  const Arguments& arguments() const {
    return arguments_;
  }
  /// An argument that has no operands, in place of one that has none.
  void set_constant(size_t argument, c10::IValue value);
  size_t operand_count() const {
    return operands_.size();
  }
  Value* operand(size_t number) const {
    return operands_[number].value;
  }
  void set_operand(size_t number, Value* value);

  /// What it gives, in order; the tensors of a list one by one; nullptr where nothing comes out.
  const std::vector<Value*>& outputs() const {
    return output_values_;
  }
  Value* output(size_t number = 0) const {
    return output_values_[number];
  }
  /// Per return of the operator: how many of the outputs are its list, or kSingle.
  static constexpr int64_t kSingle = -1;
  const std::vector<int64_t>& output_lists() const {
    return output_lists_;
  }

  Graph& graph() const {
    return *graph_;
  }
  /// Of the graph, in order; nullptr at the ends.
  Node* next() const;
  Node* previous() const;

  Origin origin;
  /// How an operator is run on parts of tensors; none where it is run as it stands.
  std::shared_ptr<const CallSharding> sharding;

 private:
  friend class Graph;
  struct Operand {
    Value* value;
    size_t use; // its place among the value's uses
  };

  Node(Graph* graph, Target target, Arguments arguments)
      : target_(std::move(target)), arguments_(std::move(arguments)), graph_(graph) {}
  void drop_use(size_t number);

  Target target_;
  Arguments arguments_;
  std::vector<Operand> operands_;
  std::vector<std::unique_ptr<Value>> outputs_;
  std::vector<Value*> output_values_;
  std::vector<int64_t> output_lists_;
  Graph* graph_;
  std::list<Node>::iterator place_;
};

/// What a new node gives: a value for every type, none for nullopt.
struct OutputTypes {
  std::vector<std::optional<Type>> types;
  std::vector<int64_t> lists = {};     // as Node::output_lists; all single where empty
  std::vector<std::string> names = {}; // made from the operator's where empty or taken
};

/// Nodes in an order in which every value is made before it is used. Inserting, erasing and replacing are constant-time
/// per use; nodes and values stay where they are in memory.
class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Value* add_input(const std::string& name, Type type);
  const std::vector<Value*>& inputs() const {
    return input_values_;
  }
  /// A node before another; at the end for nullptr.
  Node* insert(
      Node* before,
      Target target,
      Arguments arguments,
      const std::vector<Value*>& operands,
      OutputTypes outputs);
  /// What the graph gives, as the last node's operands. Called once.
  Node* set_return(const std::vector<Value*>& values);
  Node* return_node() const {
    return return_;
  }

  Node* first() const;
  size_t size() const {
    return nodes_.size();
  }
  void move_before(Node* node, Node* before);
  /// Whose outputs must be unused.
  void erase(Node* node);
  void replace_all_uses(Value* value, Value* by);

 private:
  friend class Node;
  std::string fresh_name(const std::string& wanted);

  std::list<Node> nodes_;
  std::vector<std::unique_ptr<Value>> inputs_;
  std::vector<Value*> input_values_;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, size_t> next_suffix_;
  Node* return_ = nullptr;
};

/// "aten::linear", "aten::add.Tensor", "_operator.floordiv", "all_gather", "return".
std::string target_name(const Node& node);

} // namespace weft::graph
