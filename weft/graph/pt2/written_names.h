#pragma once

#include "weft/graph/ir/program.h"

#include <unordered_map>
#include <unordered_set>

namespace weft::graph {

/// The names of values and nodes in a file: unique names that are valid in Python.
class WrittenNames {
 public:
  explicit WrittenNames(const Program& program);

  const std::string& of(const Value* value) const {
    return values_.at(value);
  }
  /// The name of the node, which is that of its output if it has exactly one.
  const std::string& of(const Node* node) const {
    return nodes_.at(node);
  }
  /// A name that is not used yet.
  std::string fresh(const std::string& wanted);

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, size_t> next_suffix_;
  std::unordered_map<const Value*, std::string> values_;
  std::unordered_map<const Node*, std::string> nodes_;
};

} // namespace weft::graph
