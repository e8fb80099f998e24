#pragma once

#include "weft/graph/parallelize/buffer_layouts.h"
#include "weft/graph/parallelize/tensor_parallel_options.h"
#include "weft/styles/parallel_plan.h"

#include <unordered_set>

namespace weft::graph {

/// Raised if a write would reach only one of two tensors that the program expects to be one.
struct PartedByWrite {
  std::string original; // the value that would not be copied if it were replicated
  std::string message;
};

/// tensor_parallel with given choices: the layouts of buffers that are written to, and the names of the values that are
/// replicated because they are written to through views. If the choices do not suffice, it raises PartedByWrite and
/// leaves the program incomplete: tensor_parallel tries other choices on copies.
void attempt_parallel(
    Program& program,
    const DeviceMesh& mesh,
    const nn::ParallelPlan& plan,
    const TensorParallelOptions& options,
    const BufferLayouts& buffers = {},
    const std::unordered_set<std::string>& kept_replicated = {});

} // namespace weft::graph
