#pragma once

#include <torch/csrc/autograd/engine.h>

namespace weft {

/// Whether this thread runs backward: what it calls comes from derivative formulas and hooks.
inline bool in_backward() {
  return torch::autograd::get_current_graph_task_id() != -1;
}

} // namespace weft
