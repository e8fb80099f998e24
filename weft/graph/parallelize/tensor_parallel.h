#pragma once

#include "weft/graph/parallelize/tensor_parallel_options.h"
#include "weft/styles/parallel_plan.h"

namespace weft::graph {

/// Makes a program parallel: assigns layouts to its parameters by a plan, propagates the layouts through all operators
/// by the same rules and costs as distributed tensors, and inserts redistributions where they are needed. Afterwards
/// every tensor has a layout on the mesh. Types stay global, and nothing depends on the rank: localize() makes a rank's
/// program.
///
///   auto program = read_pt2("model.pt2");
///   tensor_parallel(program, mesh, nn::ParallelPlan::load("plan.json"));
///   write_pt2(localize(program, rank), "rank0.pt2");
///
/// The results are those of the original program under every plan. Raises for a plan that does not fit the program, and
/// for a program that writes to tensors through views that would have to be redistributed.
void tensor_parallel(
    Program& program,
    const DeviceMesh& mesh,
    const nn::ParallelPlan& plan,
    const TensorParallelOptions& options = {});

} // namespace weft::graph
