#pragma once

#include "weft/graph/capture/capture.h"

namespace weft::graph {

/// How a call differs from an earlier one of the same function, as a text for an error; empty if a replay of either does
/// what the other did.
///
///   it called %mul: f32[8] = aten::mul(%grad, 0.1) and then %mul: f32[8] = aten::mul(%grad, 0.19)
std::string difference(const LocalCapture& before, const LocalCapture& after);

} // namespace weft::graph
