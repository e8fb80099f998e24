#include "weft/graph/ir/unknown_call.h"

#include <torch/library.h>

namespace {

constexpr const char* kName = "unknown_call";

/// Programs that have this node are changed by passes and never run.
void raise(const c10::OperatorHandle& /*op*/, torch::jit::Stack* /*stack*/) {
  TORCH_INTERNAL_ASSERT(false, "weft::unknown_call stands for another call and cannot be run");
}

} // namespace

TORCH_LIBRARY_FRAGMENT(weft, library) {
  library.def("unknown_call(Tensor(a!)[] tensors, Any[] numbers) -> Any");
  // As a composite operator it counts as one that may return its operands.
  library.impl(
      kName,
      torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, torch::CppFunction::makeFromBoxedFunction<raise>()));
}

namespace weft::graph {

c10::OperatorHandle unknown_call() {
  return c10::Dispatcher::singleton().findSchemaOrThrow("weft::unknown_call", "");
}

} // namespace weft::graph
