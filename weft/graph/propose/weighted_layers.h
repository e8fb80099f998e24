#pragma once

#include "weft/graph/parallelize/program_modules.h"

namespace weft::graph {

/// A call of a layer that a plan can cut: a linear one, or an embedding.
struct WeightedLayer {
  const Node* node;
  std::string module; // as a plan names it
  std::string weight; // the parameter's name, which another module may own where it is tied
  const Value* input; // what it is applied to; of an embedding, the positions
  int64_t rows;       // of the weight: features that come out, or words
  bool is_embedding;
};

/// The layers of a program by their nodes, found by what is done with parameters: linear, addmm, mm and matmul with a
/// parameter or its transpose, and embedding. Those that no plan can name are left out.
std::unordered_map<const Node*, WeightedLayer> find_weighted_layers(const Program& program, ProgramModules& modules);

} // namespace weft::graph
