#include "weft/tensor/impl/parallel_forward.h"

#include <utility>

namespace weft {

namespace {

constinit thread_local bool in_parallel_forward = false;

} // namespace

bool ParallelForward::is_active() {
  return in_parallel_forward;
}

bool ParallelForward::exchange(bool active) {
  return std::exchange(in_parallel_forward, active);
}

} // namespace weft
