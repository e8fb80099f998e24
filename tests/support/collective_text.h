#pragma once

#include "weft/graph/passes/collective_forms.h"

namespace weft::testing {

/// What find_collectives finds, one line each:
///
///   gather %x -> %c along 1 over tp of 2: %g %w %a %c; kept %w joined 0
///   scatter(sum) %x -> %w along 0 over tp of 2: %r %w
///   gather %g: the pieces are joined in another order
///
/// Nodes are called by their first output.
std::string collectives_text(const graph::Program& program);
/// Of a program that is given as text and has to be valid.
std::string collectives_of(const std::string& text);

} // namespace weft::testing
