#pragma once

#include "weft/graph/ir/name_table.h"
#include "weft/graph/ir/node.h"
#include "weft/graph/ir/pool.h"

#include <deque>
#include <optional>
#include <unordered_set>

namespace weft::graph {

/// What a new node gives: a value for every type, none for nullopt.
struct OutputTypes {
  c10::SmallVector<std::optional<Type>, 1> types;
  std::vector<int64_t> lists = {};             // as Node::output_lists; all single where empty
  c10::SmallVector<std::string, 1> names = {}; // made from the operator's where empty or taken
};

/// Nodes in an order in which every value is made before it is used. Inserting, erasing and replacing are constant-time
/// per use; nodes and values stay where they are in memory, those that were made one after the other side by side.
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
  /// A node before another; at the end for nullptr.
  Node* insert(Node* before, Target target, Arguments arguments, c10::ArrayRef<Value*> operands, OutputTypes outputs);
  /// What the graph gives, as the last node's operands. Called once.
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
  /// Whose outputs must be unused.
  void erase(Node* node);
  void replace_all_uses(Value* value, Value* by);

  /// Above all numbers that nodes and values have.
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
