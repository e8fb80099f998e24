#include "python/bindings/bindings.h"

PYBIND11_MODULE(_C, module) {
  using namespace weft::python;
  module.doc() = "The C++ side of the package weft. Use the names of weft itself.";
  module.attr("__version__") = WEFT_VERSION;
  bind_errors(module);
  bind_interpreter_lock(module);
  bind_placements(module);
  bind_meshes(module);
  bind_groups(module);
  bind_specs(module);
  bind_tensors(module);
  bind_factories(module);
  bind_gradients(module);
  bind_ranks(module);
  bind_rules(module);
  bind_scopes(module);
  bind_initialization(module);
  bind_comm_log(module);
  bind_fused_matmul(module);
  bind_rates(module);
  bind_parallel(module);
  bind_fully_sharded(module);
  bind_sharded_program(module);
  bind_traced_program(module);
  bind_checkpoint(module);
  bind_tracing(module);
  bind_guards(module);

  bind_graph(module);
  bind_fx_program(module);
}
