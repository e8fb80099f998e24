#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// Removes nodes whose outputs have no uses and that only compute their outputs (effects.h). Random operators are
/// removed too, so that their numbers are not drawn. Redistributions are removed before a program is localized, because
/// all ranks have the same program; the collectives of a rank's program stay, because another rank may use a result
/// that this one does not.
///
/// Linear in the size of the graph. Returns whether it changed anything.
bool dead_code(Graph& graph);

} // namespace weft::graph
