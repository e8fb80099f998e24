#include "weft/core/traced_tensor.h"

namespace weft {

namespace {

bool (*recognize)(const at::TensorBase&) = nullptr;

} // namespace

void recognize_tracers_by(bool (*given)(const at::TensorBase&)) {
  recognize = given;
}

bool is_of_tracer(const at::TensorBase& tensor) {
  return is_traced(tensor) && recognize != nullptr && recognize(tensor);
}

} // namespace weft
