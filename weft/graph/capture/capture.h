#pragma once

#include "weft/graph/ir/program.h"

#include <functional>

namespace weft::graph {

struct CaptureOptions {
  /// The names of the program's parameters and buffers, as in module->named_parameters(). Other tensors are
  /// parameter_0, buffer_0 (written to by the function) and constant_0, numbered in the order in which the function
  /// uses them.
  std::map<std::string, at::Tensor> parameters = {};
  std::map<std::string, at::Tensor> buffers = {};
};

using CapturedFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

/// Captures a function of tensors as a program: the operators that it runs on these inputs, once, in order.
///
///   const auto program = capture([&](const auto& in) { return std::vector{net->forward(in[0])}; }, {x});
///
/// The inputs are the user inputs (input_0, ...), and the function's results are the outputs. Leaves that require a
/// gradient and are no inputs are parameters; other tensors from outside are constants. backward(), autograd::grad and
/// optimizer steps in the function are recorded as the operators that they run. In-place operators stay in place: a
/// call of the program writes to its parameters, buffers and inputs, as the function does, and the order of the nodes
/// matters.
///
/// A program of distributed tensors has global types; its values have the layouts that the tensors had, and
/// redistributions are steps. It is the same on every rank.
///
/// Anything that is not an operator is fixed at capture time: numbers, branches, accesses to memory through pointers.
/// Raises for numbers that are read from tensors, sizes that depend on values, and autocast. An error leaves no state
/// behind.
Program capture(const CapturedFunction& fn, const std::vector<at::Tensor>& inputs, const CaptureOptions& options = {});

/// What this rank did in one call of a function of distributed tensors.
struct LocalCapture {
  /// Its inputs and outputs are local tensors; `mesh` is set. Collectives are functional ones, or `redistribute_local`.
  Program program;
  /// What the function returned.
  std::vector<at::Tensor> results;
  /// The distributed tensors, made before, whose local tensors the program uses as parameters, buffers and constants.
  std::vector<at::Tensor> outside;
};

/// Captures what this rank does: below Weft's kernels, so that a run of the program on local tensors does the same, bit
/// by bit. Every rank of the mesh makes the call, which communicates as the function does. Anything that is not an
/// operator is fixed, as above, and this function cannot find out whether another call would do the same: CapturedStep
/// does, which is what to use.
LocalCapture capture_local(
    const CapturedFunction& fn,
    const std::vector<at::Tensor>& inputs,
    const CaptureOptions& options = {});

/// Whether this thread captures a function.
bool is_capturing();

} // namespace weft::graph
