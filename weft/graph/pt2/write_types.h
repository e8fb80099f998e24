#pragma once

#include "weft/graph/ir/program.h"

#include <nlohmann/json.hpp>

#include <set>

namespace weft::graph {

/// Types in the form of files. Collects the symbols that were written.
class TypeWriter {
 public:
  explicit TypeWriter(const std::map<std::string, Symbol>& symbols);

  nlohmann::json size(const Size& size);
  nlohmann::json tensor(const TensorType& type);
  nlohmann::json number(const NumberType& type);
  /// If a number's type has no expression, it is derived from the node that computes the number, or it is a new symbol.
  nlohmann::json number_of(const Value* value);
  /// {"s77": {"min_val": 2, "max_val": 100}} for the symbols that were written.
  nlohmann::json ranges() const;

 private:
  nlohmann::json expression(const std::string& text, const Size* size);
  std::string expression_of(const Value* value);

  const std::map<std::string, Symbol>& symbols_;
  Size::Values hints_;
  std::set<std::string> used_;
  std::unordered_map<const Value*, std::string> found_;
  size_t next_unknown_ = 0;
};

} // namespace weft::graph
