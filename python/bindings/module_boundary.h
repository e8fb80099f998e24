#pragma once

#include "python/bindings/bindings.h"

#include "weft/nn/cross.h"

namespace weft::python {

/// What happens to the inputs and outputs of one module.
struct ModuleBoundary {
  nn::Crosser crosser;
  bool communicates; // with other ranks, which may be threads that need Python's lock meanwhile
  std::vector<nn::Crossing> inputs;
  std::map<std::string, nn::Crossing> keyword_inputs;
  bool local_inputs;
  std::vector<nn::Crossing> outputs;
  bool local_outputs;
};

/// Hooks for the module, with the signatures that torch expects; None where there is nothing to do. They are built-in
/// functions: a Python function that calls a bound one takes several times as long.
struct BoundaryHooks {
  py::object input;         // register_forward_pre_hook
  py::object keyword_input; // register_forward_pre_hook(with_kwargs=True), instead of the one above
  py::object output;        // register_forward_hook
};
BoundaryHooks hooks_of(ModuleBoundary boundary);

} // namespace weft::python
