#pragma once

#include "weft/graph/ir/program.h"

#include <unordered_map>
#include <unordered_set>

namespace weft::graph {

/// Primes, and the symbols that they stand for.
using StandIns = std::vector<std::pair<int64_t, std::string>>;
/// A number with the symbols in it written out: 20014 is 2*s0 where 10007 stands for s0.
Size written_out(int64_t number, const StandIns& stand_ins);

/// Numbers in place of a program's symbols, for which rules can be asked: large primes, each its own, so that what holds
/// for them holds in general and no two sizes are equal by chance: a prime divides no size that is a number, of a tensor
/// or of the mesh. A symbol whose range has no such prime is taken for one outside of it, and one that can be a single
/// number for that. They depend on the program's symbols, sizes and mesh alone.
class TrialValues {
 public:
  /// `choice`: another one gives other numbers, by which what depends on them can be told.
  explicit TrialValues(const Program& program, int64_t choice = 0);

  int64_t of(const Size& size) const {
    return size.is_number() ? size.number() : size.evaluate(symbols_);
  }
  std::vector<int64_t> of(const Sizes& sizes) const;
  /// Of a number that a node computes; raises for one that has not been added.
  const c10::IValue& of(const Value* number) const;

  /// Whether the size's symbols are taken for numbers that they can be: those that operators can be run with.
  bool is_possible(const Size& size) const;

  /// The symbols that primes stand for.
  const StandIns& stand_ins() const {
    return stand_ins_;
  }

  /// Computes what a node gives of numbers: functions of numbers, sizes of tensors, and numbers read out of tensors.
  void add(const Node& node);

 private:
  void add_symbol(const std::string& name, const Symbol& symbol, const std::vector<int64_t>& numbers);
  c10::IValue of_type(const NumberType& type) const;

  Size::Values symbols_;
  std::unordered_set<std::string> impossible_; // taken for numbers outside of their ranges
  StandIns stand_ins_;
  int64_t choice_;
  int64_t next_;
  std::unordered_map<const Value*, c10::IValue> numbers_;
};

/// Whether a node gives the size of a tensor: sym_size, sym_stride, sym_numel and the like.
bool is_size_query(const Node& node);

} // namespace weft::graph
