#pragma once

#include "weft/graph/ir/program.h"

#include <functional>

namespace weft::graph {

struct CaptureOptions {
  /// By these names the program knows its parameters and buffers, as module->named_parameters() says them. Others are
  /// parameter_0, buffer_0 (what is written to) and constant_0, in the order in which the function comes to them.
  std::map<std::string, at::Tensor> parameters = {};
  std::map<std::string, at::Tensor> buffers = {};
};

using CapturedFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

/// The program that a function of tensors is: the operators that it runs on these inputs, once, in order.
///
///   const auto program = capture([&](const auto& in) { return std::vector{net->forward(in[0])}; }, {x});
///
/// The inputs are user inputs (input_0, ...), and what the function gives the outputs. Leaves that require a gradient and
/// are no inputs are parameters, other tensors from outside constants. backward(), autograd::grad and optimizers' steps in
/// the function are recorded as the operators that they run. Operators in place stay so: calling the program then writes to
/// its parameters, buffers and inputs, as the function does, and the order of the nodes counts.
///
/// Of distributed tensors the program is of whole tensors: types are global, values have the layouts that they had, and
/// redistributions are steps. The same on every rank.
///
/// What is no operator is taken as it was: numbers, branches, what is done to memory through pointers. Raises for numbers
/// that are read out of tensors, sizes that depend on values, and autocast. Where it raises, nothing is left behind.
Program capture(const CapturedFunction& fn, const std::vector<at::Tensor>& inputs, const CaptureOptions& options = {});

} // namespace weft::graph
