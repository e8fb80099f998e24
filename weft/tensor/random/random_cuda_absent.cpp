#include "weft/tensor/random/random_cuda.h"

#include <c10/util/Exception.h>

namespace weft {

namespace {

[[noreturn]] void raise_absent() {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "[random] random numbers on CUDA devices need a kernel, but Weft was built without CUDA. Build against a ",
      "torch with CUDA where nvcc is found.");
}

} // namespace

void fill_random_cuda(
    const at::Tensor& /*contiguous*/,
    int64_t /*first*/,
    const Distribution& /*distribution*/,
    RandomCall /*call*/) {
  raise_absent();
}

void fill_random_cuda(
    const at::Tensor& /*contiguous*/,
    const at::Tensor& /*row_begins*/,
    const at::Tensor& /*within_row*/,
    const Distribution& /*distribution*/,
    RandomCall /*call*/) {
  raise_absent();
}

} // namespace weft
