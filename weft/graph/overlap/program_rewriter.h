#pragma once

#include "weft/graph/analysis/matmul_call.h"
#include "weft/graph/analysis/node_order.h"
#include "weft/graph/analysis/trial_values.h"

namespace weft::graph {

/// Puts nodes into a program, of whole tensors with layouts or of a rank's own, in place of others. Those stay where they are,
/// unused, until `erase_replaced`: values that were found before the first change can be asked for to the end.
class ProgramRewriter {
 public:
  explicit ProgramRewriter(Program& program) : program_(program), order_(*program.graph) {}

  Program& program() {
    return program_;
  }
  const NodeOrder& order() const {
    return order_;
  }

  /// Uses by nodes that have not been replaced.
  std::vector<Value::Use> uses(const Value& value) const;
  bool is_replaced(const Node* node) const {
    return replaced_.count(node) > 0;
  }

  /// New nodes come before this one, from where another one is.
  void insert_before(Node* place, const Origin& origin) {
    place_ = place;
    origin_ = origin;
  }
  /// `arguments` up to the last that is given; layouts where the program has them, one per output.
  Node* insert(
      const std::string& op,
      Arguments arguments,
      const std::vector<Value*>& operands,
      OutputTypes outputs,
      const std::vector<std::optional<Layout>>& layouts);
  /// A cast or a permutation, as of another node, of this value.
  Value* repeat(const Node& node, Value* value);
  Value* permute(Value* value, const std::vector<int64_t>& permutation);
  /// The same elements under sizes that `can_state`, laid out so; the value itself where it has them.
  Value* reshape(Value* value, const Sizes& sizes, const std::optional<Layout>& layout);
  /// Whether sizes can be written as an argument: one at most is no number.
  static bool can_state(const Sizes& sizes);
  /// The bits of the value as another dtype of the same size.
  Value* view_as(Value* value, c10::ScalarType dtype);
  /// A matmul's right-hand side as [inner, columns].
  Value* matrix_of(const MatmulCall& call);
  /// A step of a redistribution.
  Value* insert(const Step& step, Value* value);
  /// The size of a tensor's dim, as an argument that may be None.
  Argument size_argument(Value* tensor, int64_t dim, const Size& size, std::vector<Value*>& operands);

  /// Moves nodes, which come in order, to just before another one.
  void hoist(const std::vector<Node*>& nodes, Node* before);
  void replace_uses(Value* value, Value* by);
  /// Takes note of nodes that others have inserted just before this one.
  void place_nodes_before(const Node* node) {
    order_.place_before(node);
  }
  /// Its outputs are not used by nodes that stay.
  void mark_replaced(Node* node) {
    replaced_.insert(node);
  }
  /// Marks those of the nodes, each behind what it uses, whose outputs nobody uses any more.
  void mark_unused(const std::vector<Node*>& nodes);
  void erase_replaced();

 private:
  Program& program_;
  NodeOrder order_;
  std::optional<TrialValues> trial_values_; // made when they are needed
  std::unordered_set<const Node*> replaced_;
  Node* place_ = nullptr;
  Origin origin_;
};

/// How the rows of `rows` with the last dim of `last` lie, in as many dims as `rank`: where a matmul was of rows that were
/// written under fewer dims. Nothing where the two do not agree. The values have layouts.
std::optional<Layout> layout_of_rows(const Value& rows, const Value& last, int64_t rank);

} // namespace weft::graph
