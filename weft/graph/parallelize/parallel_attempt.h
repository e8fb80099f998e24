#pragma once

#include "weft/graph/parallelize/buffer_layouts.h"
#include "weft/graph/parallelize/tensor_parallel_options.h"
#include "weft/styles/parallel_plan.h"

#include <unordered_set>

namespace weft::graph {

/// Raised where a write would reach one of two tensors that the program means to be one.
struct PartedByWrite {
  std::string original; // the value that, kept whole, need not be copied
  std::string message;
};

/// tensor_parallel with its choices made: the layouts of buffers that are written to, and the values, by name, that are
/// kept whole since they are written to through views. Where they do not do, it raises PartedByWrite and leaves the program
/// half done: tensor_parallel tries on copies until they do.
void attempt_parallel(
    Program& program,
    const DeviceMesh& mesh,
    const nn::ParallelPlan& plan,
    const TensorParallelOptions& options,
    const BufferLayouts& buffers = {},
    const std::unordered_set<std::string>& kept_whole = {});

} // namespace weft::graph
