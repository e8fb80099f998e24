#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// Something of every value, or of every node, of one graph: T() until it is set. By their numbers, so that looking
/// something up is one access to memory, and memory is read in about the order in which the graph was made.
///
///   ValueTable<Value*> local(graph);
///   local[value] = copy;
template <class Key, class T>
class IdTable {
 public:
  IdTable() = default;
  /// With room for what the graph has so far.
  explicit IdTable(size_t ids) : entries_(ids) {}

  T& operator[](const Key* key) {
    if (key->id() >= entries_.size()) {
      entries_.resize(std::max(key->id() + 1, 2 * entries_.size()));
    }
    return entries_[key->id()];
  }
  /// T() where nothing was set.
  T get(const Key* key) const {
    return key->id() < entries_.size() ? entries_[key->id()] : T();
  }

 private:
  std::vector<T> entries_;
};

template <class T>
class ValueTable : public IdTable<Value, T> {
 public:
  ValueTable() = default;
  explicit ValueTable(const Graph& graph) : IdTable<Value, T>(graph.value_ids()) {}
};

template <class T>
class NodeTable : public IdTable<Node, T> {
 public:
  NodeTable() = default;
  explicit NodeTable(const Graph& graph) : IdTable<Node, T>(graph.node_ids()) {}
};

/// Some values of one graph.
class ValueSet {
 public:
  void insert(const Value* value) {
    table_[value] = current_;
  }
  bool contains(const Value* value) const {
    return table_.get(value) == current_;
  }
  /// At no cost.
  void clear() {
    ++current_;
  }

 private:
  ValueTable<uint32_t> table_; // the turn in which a value was put in
  uint32_t current_ = 1;
};

} // namespace weft::graph
