#pragma once

#include "weft/graph/ir/program.h"
#include "weft/graph/passes/tensor_parallel.h"

#include <ATen/core/Tensor.h>

#include <functional>

namespace weft::testing {

/// The program of a text, with tensors of small numbers for its parameters, buffers and constants. A node that is "in"
/// a module is in those around it too: `in "layers.0.wq@1"` is the second call of layers.0.wq.
graph::Program program_of(std::string_view text);

using Pass = std::function<void(graph::Program&)>;
/// tensor_parallel() over a mesh such as "mesh(tp=2)".
Pass tensor_parallel_over(
    const std::string& mesh,
    const nn::ParallelPlan& plan,
    const graph::TensorParallelOptions& options = {});

/// The text of a program after the pass, which must be a valid one.
std::string text_after(const Pass& pass, std::string_view text);

/// That what a pass makes of a program gives the same on the ranks as the program alone: user outputs, and what is written
/// to user inputs and to buffers, over two runs. Inputs are whole; floating ones that are not given are made, and so are
/// integer ones, of numbers below `index_end`. Gives the text after the pass.
struct RunCase {
  std::vector<at::Tensor> inputs = {};
  graph::Size::Values symbols = {};
  int64_t index_end = 4;
};
std::string expect_same_on_ranks(const Pass& pass, std::string_view text, const RunCase& run = {});

/// How often a text has another in it.
size_t count(std::string_view text, std::string_view part);

} // namespace weft::testing
