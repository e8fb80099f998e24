#pragma once

#include "weft/graph/analysis/matmul_call.h"
#include "weft/graph/analysis/node_order.h"
#include "weft/graph/analysis/trial_values.h"

namespace weft::graph {

/// Replaces nodes of a program by new ones. The program is one of global tensors with layouts, or that of one rank.
/// Replaced nodes stay in the graph, unused, until `erase_replaced`, so that pointers to values stay valid until then.
class ProgramRewriter {
 public:
  explicit ProgramRewriter(Program& program) : program_(program), order_(*program.graph) {}

  Program& program() {
    return program_;
  }
  const NodeOrder& order() const {
    return order_;
  }

  /// The uses of a value by nodes that have not been replaced.
  std::vector<Value::Use> uses(const Value& value) const;
  bool is_replaced(const Node* node) const {
    return replaced_.count(node) > 0;
  }

  /// New nodes are inserted before `place` and get this origin.
  void insert_before(Node* place, const Origin& origin) {
    place_ = place;
    origin_ = origin;
  }
  /// `arguments` may leave out the last ones. `layouts` has one per output, nullopt in a rank's program.
  Node* insert(
      const std::string& op,
      Arguments arguments,
      const std::vector<Value*>& operands,
      OutputTypes outputs,
      const std::vector<std::optional<Layout>>& layouts);
  /// The same cast or permutation as that of a node, applied to a value.
  Value* repeat(const Node& node, Value* value);
  Value* permute(Value* value, const std::vector<int64_t>& permutation);
  /// The same elements with other sizes, which `can_state` must allow, and a layout; the value itself where it has
  /// them.
  Value* reshape(Value* value, const Sizes& sizes, const std::optional<Layout>& layout);
  /// Whether sizes can be written as an argument of a reshape: at most one of them is a symbol.
  static bool can_state(const Sizes& sizes);
  /// The bits of the value as another dtype of the same size.
  Value* view_as(Value* value, c10::ScalarType dtype);
  /// A matmul's right-hand side as [inner, columns].
  Value* matrix_of(const MatmulCall& call);
  /// A redistribution step.
  Value* insert(const Step& step, Value* value);
  /// The size of a tensor's dim, as an optional argument of a call.
  Argument size_argument(Value* tensor, int64_t dim, const Size& size, std::vector<Value*>& operands);

  /// Moves nodes, which are given in order, to just before another one.
  void hoist(const std::vector<Node*>& nodes, Node* before);
  void replace_uses(Value* value, Value* by);
  /// Records the order of nodes that were inserted just before this one by other means than `insert`.
  void place_nodes_before(const Node* node) {
    order_.place_before(node);
  }
  /// Marks a node whose outputs are not used by nodes that stay.
  void mark_replaced(Node* node) {
    replaced_.insert(node);
  }
  /// Marks those of the nodes, which are given in order, whose outputs no node uses any more.
  void mark_unused(const std::vector<Node*>& nodes);
  void erase_replaced();

 private:
  Program& program_;
  NodeOrder order_;
  std::optional<TrialValues> trial_values_; // computed at the first use
  std::unordered_set<const Node*> replaced_;
  Node* place_ = nullptr;
  Origin origin_;
};

/// The layout of a tensor of `ndim` dims with the leading dims of `rows` and the last dim of `last`, for a matmul whose
/// rows were flattened to fewer dims. nullopt where mesh dims shard the rows of one value and not those of the other.
/// Both values must have layouts.
std::optional<Layout> layout_of_rows(const Value& rows, const Value& last, int64_t ndim);

} // namespace weft::graph
