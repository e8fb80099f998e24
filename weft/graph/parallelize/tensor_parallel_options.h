#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

struct TensorParallelOptions {
  /// The mesh dim that the plan is for, as in parallelize_module.
  std::optional<std::string> mesh_dim = std::nullopt;
  /// The layouts of user inputs, by name, and of user outputs, by position. Inputs and outputs are replicated unless
  /// they are named here or by the plan's entry for the model itself.
  std::map<std::string, Layout> inputs = {};
  std::map<size_t, Layout> outputs = {};

  /// Raises for inputs and outputs that the program does not have, and for layouts of another mesh.
  void check(const Program& program, const DeviceMesh& mesh) const;
};

} // namespace weft::graph
