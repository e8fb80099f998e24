#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/DimVector.h>

#include <optional>
#include <vector>

namespace weft {

/// What a tensor would be on a single device; not defined where none comes out.
struct GlobalMeta {
  bool defined = false;
  c10::DimVector sizes;
  c10::DimVector strides;
  int64_t offset = 0; // of a view, against the tensor it was taken of
  c10::ScalarType dtype = c10::ScalarType::Undefined;
};

/// The tensors that a call gives on a single device, from a run without data; nothing where the operator has no kernel
/// for that. Arguments that no device would take raise here, in terms of the whole tensors, the same on every rank.
std::optional<std::vector<GlobalMeta>> global_results(
    const c10::OperatorHandle& op,
    c10::ArrayRef<c10::IValue> arguments);

} // namespace weft
