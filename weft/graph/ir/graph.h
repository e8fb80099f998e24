#pragma once

#include "weft/graph/ir/name_table.h"
#include "weft/graph/ir/node.h"
#include "weft/graph/ir/pool.h"

#include <deque>
#include <optional>
#include <unordered_set>

namespace weft::graph {

/// The outputs of a new node: one value per type, and no value for nullopt.
struct OutputTypes {
  c10::SmallVector<std::optional<Type>, 1> types;
  std::vector<int64_t> lists = {};             // as Node::output_lists; if empty, no return is a list
  c10::SmallVector<std::string, 1> names = {}; // derived from the operator's name if empty or already used
};

/// Nodes in an order in which every value is computed before it is used. Inserting, erasing and replacing take constant
/// time per use. Nodes and values keep their addresses, and those that were created in sequence are adjacent in memory.
class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  Value* add_input(const std::string& name, Type type);
  const std::vector<Value*>& inputs() const {
    return inputs_;
  }
  /// Inserts the node before another one; at the end for nullptr.
  Node* insert(Node* before, Target target, Arguments arguments, c10::ArrayRef<Value*> operands, OutputTypes outputs);
  /// Sets what the graph returns, as the operands of the last node. Called once.
  Node* set_return(c10::ArrayRef<Value*> values);
  Node* return_node() const {
    return return_;
  }

  Node* first() const {
    return first_;
  }
  size_t size() const {
    return size_;
  }
  void move_before(Node* node, Node* before);
  /// Requires that the node's outputs are unused.
  void erase(Node* node);
  void replace_all_uses(Value* value, Value* by);

  /// Greater than the ids of all nodes and values.
  size_t node_ids() const {
    return node_ids_;
  }
  size_t value_ids() const {
    return value_ids_;
  }

 private:
  Value* make_value(std::string_view wanted, Type type, Node* producer);
  void destroy(Node* node);
  void link(Node* node, Node* before);
  void unlink(Node* node);
  const std::vector<int64_t>* kept_lists(std::vector<int64_t> lists, size_t outputs);

  Pool<Node> nodes_;
  Pool<Value> values_;
  size_t node_ids_ = 0;
  size_t value_ids_ = 0;
  Node* first_ = nullptr;
  Node* last_ = nullptr;
  size_t size_ = 0;
  std::vector<Value*> inputs_;
  NameTable names_;
  std::deque<std::vector<int64_t>> lists_;
  Node* return_ = nullptr;
};

} // namespace weft::graph
