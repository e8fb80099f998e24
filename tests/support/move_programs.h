#pragma once

#include "tests/support/layout_cases.h"
#include "weft/graph/ir/program.h"

#include <functional>

namespace weft::testing {

/// A program that is sharded already: its tensor input "x" lies as `source`, and output i is the same tensor under
/// `targets[i]`, brought there by the steps that plan() gives. The value of every symbol among the sizes is an input of
/// its own, behind x and in the order of appearance.
graph::Program move_program(
    const DeviceMesh& mesh,
    const graph::Sizes& sizes,
    const Layout& source,
    const std::vector<Layout>& targets,
    c10::ScalarType dtype = at::kFloat);

/// A run of such a program: the whole tensor, and what its symbols are then.
struct MoveRun {
  at::Tensor whole;
  graph::Size::Values symbols = {};
};

/// Tensors of every target and rank: results[target][rank].
using MoveResults = std::vector<std::vector<at::Tensor>>;

/// Runs such a program on ranks as threads, once per whole tensor. `make(rank)` gives a rank's program.
/// results[run][target][rank].
std::vector<MoveResults> run_moves(
    const graph::Program& program,
    const Layout& source,
    const std::vector<MoveRun>& runs,
    const std::function<graph::Program(int64_t)>& make);

/// That the ranks hold what the layout says of the whole tensor; partial values after they are reduced.
void expect_parts_of(
    const at::Tensor& whole,
    const Layout& source,
    const Layout& target,
    const std::vector<at::Tensor>& parts,
    c10::IntArrayRef mesh_shape);

/// Small whole numbers of both signs.
at::Tensor numbered(c10::IntArrayRef sizes);

} // namespace weft::testing
