#pragma once

#include "weft/graph/parallelize/program_modules.h"

namespace weft::graph {

/// A call of a layer that a plan can shard: a linear layer, an embedding, or a stack of linear layers, as experts are.
struct WeightedLayer {
  struct Stack {
    std::string owner;  // the module that has the parameter
    bool is_transposed; // [layers, inputs, outputs]
  };
  const Node* node;
  std::string module; // as a plan names it: the path of a stack is that of its parameter
  std::string weight; // the parameter's name, which another module may own where it is tied
  const Value* input; // the input of the layer; for an embedding, the positions
  int64_t rows;       // output features, or words
  bool is_embedding;
  std::optional<Stack> stack = std::nullopt;
};

/// The layers of a program by their nodes, found by the operators that use parameters (weight_use.h). Layers that no plan
/// can name are left out.
std::unordered_map<const Node*, WeightedLayer> find_weighted_layers(const Program& program, ProgramModules& modules);

} // namespace weft::graph
