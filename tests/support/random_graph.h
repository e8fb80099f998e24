#pragma once

#include "weft/graph/parallelize/tensor_parallel_options.h"
#include "weft/styles/parallel_plan.h"

#include <random>

namespace weft::testing {

/// A program on global tensors, as text, and how it is to be made parallel.
struct RandomGraph {
  std::string text;
  std::string mesh; // "tp=2"
  nn::ParallelPlan plan;
  graph::TensorParallelOptions options; // layouts of inputs and outputs

  /// All of it, to be run again by hand.
  std::string to_string() const;
};

/// Matmuls of all kinds (layers with weights that the plan shards or not, of one layer or of several joined), and what
/// stands between them: elementwise operators, reductions, reshapes, permutations, joins and slices. Sizes that meshes
/// divide and sizes that they do not. Doubles, so that sums in another order differ by nothing that counts.
RandomGraph random_graph(std::mt19937& random, int nodes);

} // namespace weft::testing
