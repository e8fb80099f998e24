#pragma once

#include "weft/graph/capture/trace.h"
#include "weft/graph/ir/program.h"

namespace weft::graph {

/// A value from outside of the function, and its kind.
struct Outside {
  ValueId value;
  InputKind kind;
  std::string target;
  at::Tensor tensor;
};

/// The program of a trace. `outside` are the inputs and the tensors with names; other tensors that the calls use are
/// parameter_0, buffer_0 and constant_0, as CaptureOptions says.
Program program_of(const Trace& trace, std::vector<Outside> outside, c10::ArrayRef<ValueId> outputs);

} // namespace weft::graph
