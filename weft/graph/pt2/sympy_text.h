#pragma once

#include "weft/graph/ir/size.h"

#include <optional>

namespace weft::graph {

/// The form of sizes in files, as sympy prints them:
///
///   Add(Mul(Integer(2), Symbol('s77', positive=True, integer=True)), Integer(3))      2*s77 + 3
///
/// None for an expression that is not a size: a comparison, a real number, a function that Size lacks, or another
/// syntax.
std::optional<Size> size_of_sympy(std::string_view text);

/// A symbol whose name begins with u is known only when the program runs and may be negative; others are positive
/// counts.
std::string sympy_of_size(const Size& size);

} // namespace weft::graph
