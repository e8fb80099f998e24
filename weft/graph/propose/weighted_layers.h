#pragma once

#include "weft/graph/parallelize/program_modules.h"

namespace weft::graph {

/// A call of a layer that a plan can shard: a linear layer or an embedding.
struct WeightedLayer {
  const Node* node;
  std::string module; // as a plan names it
  std::string weight; // the parameter's name, which another module may own where it is tied
  const Value* input; // the input of the layer; for an embedding, the positions
  int64_t rows;       // of the weight: output features, or words
  bool is_embedding;
};

/// The layers of a program by their nodes, found by the operators that use parameters (weight_use.h). Layers that no plan
/// can name are left out.
std::unordered_map<const Node*, WeightedLayer> find_weighted_layers(const Program& program, ProgramModules& modules);

} // namespace weft::graph
