#pragma once

#include "weft/graph/ir/program.h"

#include <unordered_map>
#include <unordered_set>

namespace weft::graph {

/// Primes, and the symbols that they replace.
using StandIns = std::vector<std::pair<int64_t, std::string>>;
/// A number with its primes replaced by symbols: 20014 is 2*s0 if 10007 replaces s0.
Size written_out(int64_t number, const StandIns& stand_ins);

/// Numbers that replace a program's symbols, so that rules can be evaluated. They are distinct large primes that divide
/// no constant size of a tensor or of the mesh, so that a property of these numbers holds in general, and no two sizes
/// are equal by chance. A symbol whose range contains no such prime is replaced by one outside of its range, and a
/// symbol with a single possible value by that value. The numbers depend only on the program's symbols, sizes and mesh.
class TrialValues {
 public:
  /// Another `choice` gives other numbers. Comparing two choices shows which numbers depend on symbols.
  explicit TrialValues(const Program& program, int64_t choice = 0);

  int64_t of(const Size& size) const {
    return size.is_number() ? size.number() : size.evaluate(symbols_);
  }
  std::vector<int64_t> of(const Sizes& sizes) const;
  /// The trial value of a number that a node computes; raises if the node was not added.
  const c10::IValue& of(const Value* number) const;

  /// Whether the trial values of the size's symbols are in their ranges, so that operators can run with them.
  bool is_possible(const Size& size) const;

  /// The symbols that the primes replace.
  const StandIns& stand_ins() const {
    return stand_ins_;
  }

  /// Computes the numbers that a node returns: functions of numbers, sizes of tensors, and numbers read from tensors.
  void add(const Node& node);

 private:
  void add_symbol(const std::string& name, const Symbol& symbol, const std::vector<int64_t>& numbers);
  c10::IValue of_type(const NumberType& type) const;

  Size::Values symbols_;
  std::unordered_set<std::string> impossible_; // symbols whose trial value is outside of their range
  StandIns stand_ins_;
  int64_t choice_;
  int64_t next_;
  std::unordered_map<const Value*, c10::IValue> numbers_;
};

/// Whether a node returns a size of a tensor: sym_size, sym_stride, sym_numel and similar operators.
bool is_size_query(const Node& node);

} // namespace weft::graph
