#pragma once

#include "weft/graph/overlap/collective_forms.h"

namespace weft::graph {

/// The collectives that find_collectives found, as text, one line each:
///
///   gather %x -> %c along 1 over tp of 2: %g %w %a %c; kept %w joined 0
///   scatter(sum) %x -> %w along 0 of size 5 over tp of 2: %r %w; kept; saved %r
///   reduction(sum) %x -> %w over dp,tp of 4: %r %w
///   gather %g: the shards are joined in another order
///
/// Behind the colon are the nodes, named by their first outputs, or the reason why the form is refused.
std::string to_string(const CollectiveForms& forms);

} // namespace weft::graph
