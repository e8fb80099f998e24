#pragma once

#include <c10/util/ArrayRef.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// An einsum equation of letters: "bmk,bkn->bmn".
struct Equation {
  std::vector<std::string> inputs;
  std::string output;

  /// Whether no operand has a letter twice, and every letter occurs in at least two of the operands and the output.
  bool is_contraction() const;
  /// Whether operands of these sizes have one dim per letter, and every letter has one size: nothing broadcasts.
  bool fits(c10::ArrayRef<c10::IntArrayRef> sizes) const;
};

/// Empty if the text is no equation or has an ellipsis. Without an arrow, the output has the letters that occur once,
/// in alphabetical order.
std::optional<Equation> parse_equation(std::string_view text);

} // namespace weft
