#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/DimVector.h>

#include <optional>
#include <vector>

namespace weft {

/// The metadata that an output would have on a single device; `defined` is false for an undefined output.
struct GlobalMeta {
  bool defined = false;
  c10::DimVector sizes;
  c10::DimVector strides;
  int64_t offset = 0; // of a view, relative to the tensor that it views
  c10::ScalarType dtype = c10::ScalarType::Undefined;
};

/// The outputs of a call on a single device, from a run with meta tensors; empty if the operator has no meta kernel.
/// Invalid arguments raise here, with the global shapes, and so on every rank alike.
std::optional<std::vector<GlobalMeta>> global_results(
    const c10::OperatorHandle& op,
    c10::ArrayRef<c10::IValue> arguments);

} // namespace weft
