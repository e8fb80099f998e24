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

} // namespace weft::graph
