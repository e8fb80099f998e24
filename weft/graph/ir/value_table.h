#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// Maps every value, or every node, of one graph to a T, which is T() until it is set. The ids are the indices, so that
/// a lookup is one memory access, and a walk over the graph reads memory almost in order.
///
///   ValueTable<Value*> local(graph);
///   local[value] = copy;
template <class Key, class T>
class IdTable {
 public:
  IdTable() = default;
  /// Allocates room for the values that the graph has now.
  explicit IdTable(size_t ids) : entries_(ids) {}

  T& operator[](const Key* key) {
    if (key->id() >= entries_.size()) {
      entries_.resize(std::max(key->id() + 1, 2 * entries_.size()));
    }
    return entries_[key->id()];
  }
  /// T() if nothing was set.
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

/// A set of values of one graph.
class ValueSet {
 public:
  void insert(const Value* value) {
    table_[value] = current_;
  }
  bool contains(const Value* value) const {
    return table_.get(value) == current_;
  }
  /// Clears the set in constant time.
  void clear() {
    ++current_;
  }

 private:
  ValueTable<uint32_t> table_; // the number of clear() calls before the value was inserted, plus one
  uint32_t current_ = 1;
};

} // namespace weft::graph
