#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// Removes nodes whose outputs nobody uses and that do nothing more than to compute them (effects.h). Random operators
/// go too, with the numbers they would have drawn. Redistributions go before a program is localized, where all ranks see
/// the same; the collectives of a rank's program stay, since another rank may use what this one does not.
///
/// Linear in the size of the graph. Returns whether it changed anything.
bool dead_code(Graph& graph);

} // namespace weft::graph
