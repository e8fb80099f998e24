#pragma once

#include "weft/graph/parallelize/tensor_parallel_options.h"
#include "weft/styles/parallel_plan.h"

namespace weft::graph {

/// Makes a program parallel: lays its parameters out by a plan, follows their layouts through all operators by the rules
/// and costs that distributed tensors go by, and inserts redistributions where they are due. Afterwards every tensor has a
/// layout on the mesh; types stay those of whole tensors, and nothing depends on the rank: localize() gives a rank's program.
///
///   auto program = read_pt2("model.pt2");
///   tensor_parallel(program, mesh, nn::ParallelPlan::load("plan.json"));
///   write_pt2(localize(program, rank), "rank0.pt2");
///
/// The results are those of the program whatever the plan says. Raises for plans that do not fit the program, and for one
/// that writes to tensors through views that would have to move.
void tensor_parallel(
    Program& program,
    const DeviceMesh& mesh,
    const nn::ParallelPlan& plan,
    const TensorParallelOptions& options = {});

} // namespace weft::graph
