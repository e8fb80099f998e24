#include "weft/graph/ir/local_redistribution.h"

#include <torch/library.h>

namespace weft::graph {

namespace {

TORCH_LIBRARY_FRAGMENT(weft, library) {
  library.def("redistribute_local(Tensor(a) local, int[] sizes, str source, str target) -> Tensor(a)");
}

} // namespace

const c10::OperatorHandle& redistribute_local() {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("weft::redistribute_local", "");
  return op;
}

bool is_local_redistribution(const Node& node) {
  return node.op() != nullptr && node.op()->operator_name() == redistribute_local().operator_name();
}

} // namespace weft::graph
