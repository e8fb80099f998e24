#pragma once

#include <torch/csrc/autograd/engine.h>

namespace weft {

/// Whether this thread runs backward, so that derivative formulas and hooks call the operators.
inline bool in_backward() {
  return torch::autograd::get_current_graph_task_id() != -1;
}

} // namespace weft
