#pragma once

#include "weft/core/tensor_spec.h"

#include <ATen/core/Tensor.h>

#include <map>

namespace weft {

/// A rank's local tensor of a distributed tensor, or a plain tensor (without a spec), which counts as replicated. On a rank that
/// is not in the mesh the local tensor is empty.
struct LocalTensor {
  at::Tensor local = {};
  SpecPtr spec = {};
};

/// What one rank saves: tensors and, as JSON text, values by name.
struct LocalState {
  std::map<std::string, LocalTensor> tensors = {};
  std::map<std::string, std::string> values = {};
  /// What keeps this rank from saving. The ranks wait for each other when they save; there the error is raised on all of them.
  std::string error = {};
};

} // namespace weft
