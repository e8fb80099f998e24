#include "weft/graph/capture/trace.h"

namespace weft::graph {

namespace {

void add_program(const std::vector<std::unique_ptr<TracedCall>>& calls, std::vector<const TracedCall*>& program) {
  for (const auto& call : calls) {
    if (call->is_dropped) {
      continue;
    }
    if (call->is_expanded) {
      add_program(call->inner, program);
      continue;
    }
    for (const auto& inner : call->inner) {
      if (inner->is_kept) {
        program.push_back(inner.get());
      }
    }
    program.push_back(call.get());
  }
}

} // namespace

std::vector<const TracedCall*> Trace::program() const {
  std::vector<const TracedCall*> result;
  add_program(calls, result);
  return result;
}

bool is_mutating(const TracedCall& call) {
  const auto* op = std::get_if<c10::OperatorHandle>(&call.target);
  return op != nullptr && op->schema().is_mutable();
}

} // namespace weft::graph
