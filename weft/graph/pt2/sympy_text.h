#pragma once

#include "weft/graph/ir/size.h"

#include <optional>

namespace weft::graph {

/// The form in which files state sizes, as sympy writes it out:
///
///   Add(Mul(Integer(2), Symbol('s77', positive=True, integer=True)), Integer(3))      2*s77 + 3
///
/// None for what is no size: a comparison, a real number, a function that Size does not have, text of another form.
std::optional<Size> size_of_sympy(std::string_view text);

/// A symbol whose name begins with u is known when the program runs alone, and may be anything; others count something.
std::string sympy_of_size(const Size& size);

} // namespace weft::graph
