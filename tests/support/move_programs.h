#pragma once

#include "tests/support/layout_cases.h"
#include "weft/graph/ir/program.h"

#include <functional>

namespace weft::testing {

/// A program that is sharded already: its tensor input "x" has the layout `source`, and output i is the same tensor,
/// redistributed to `targets[i]` by the steps of plan(). The value of every symbol among the sizes is an input of its
/// own, behind x and in the order of appearance.
graph::Program move_program(
    const DeviceMesh& mesh,
    const graph::Sizes& sizes,
    const Layout& source,
    const std::vector<Layout>& targets,
    c10::ScalarType dtype = at::kFloat);

/// A run of such a program: the global tensor, and the values of the symbols.
struct MoveRun {
  at::Tensor global;
  graph::Size::Values symbols = {};
};

/// Tensors of every target and rank: results[target][rank].
using MoveResults = std::vector<std::vector<at::Tensor>>;

/// Runs such a program on ranks as threads, once per global tensor. `make(rank)` gives a rank's program.
/// results[run][target][rank].
std::vector<MoveResults> run_moves(
    const graph::Program& program,
    const Layout& source,
    const std::vector<MoveRun>& runs,
    const std::function<graph::Program(int64_t)>& make);

/// That the ranks hold the local tensors of the global tensor under `target`; partial values after they are reduced.
void expect_locals_of(
    const at::Tensor& global,
    const Layout& source,
    const Layout& target,
    const std::vector<at::Tensor>& locals,
    c10::IntArrayRef mesh_shape);

/// Small integers of both signs.
at::Tensor numbered(c10::IntArrayRef sizes);

} // namespace weft::testing
