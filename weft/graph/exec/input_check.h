#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

/// Checks the arguments of a call against the types of the program's inputs: their number, kind, dtype, ndim and sizes.
/// The first size that contains a symbol determines it. Other sizes must agree, and the symbol must be in the program's
/// range.
///
///   [Executor] input 1 ('mask') must be bool[s0,8], but got bool[3,8]: dim 0 must be s0 = 4, as in input 0 ('x').
class InputCheck {
 public:
  explicit InputCheck(const Program& program);

  /// The user inputs in order, constant ones too.
  void check(c10::ArrayRef<c10::IValue> inputs) const;
  size_t size() const {
    return expected_.size();
  }

 private:
  /// A size of an input, or the value of a number.
  struct Expected {
    std::string name;
    std::optional<c10::IValue> constant;
    Type type;
    Sizes sizes; // of a tensor; of an int its expression, if it is known
  };
  struct Bound;

  std::string describe(size_t input) const;
  std::string required(size_t input) const;
  void check_kind(size_t input, const c10::IValue& value) const;
  void bind(size_t input, const c10::IValue& value, Bound& bound) const;
  void check_derived(size_t input, const c10::IValue& value, Bound& bound) const;
  void check_ranges(c10::ArrayRef<c10::IValue> inputs, const Bound& bound) const;

  std::vector<Expected> expected_;
  std::map<std::string, Symbol> symbols_;
  bool has_derived_ = false;
};

} // namespace weft::graph
