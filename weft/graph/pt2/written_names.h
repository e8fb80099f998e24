#pragma once

#include "weft/graph/ir/program.h"

#include <unordered_map>
#include <unordered_set>

namespace weft::graph {

/// What values and nodes are called in a file: names that Python takes for names, each once.
class WrittenNames {
 public:
  explicit WrittenNames(const Program& program);

  const std::string& of(const Value* value) const {
    return values_.at(value);
  }
  /// The node's own, which is its output's where there is one output.
  const std::string& of(const Node* node) const {
    return nodes_.at(node);
  }
  /// A name that nothing else has.
  std::string fresh(const std::string& wanted);

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, size_t> next_suffix_;
  std::unordered_map<const Value*, std::string> values_;
  std::unordered_map<const Node*, std::string> nodes_;
};

} // namespace weft::graph
