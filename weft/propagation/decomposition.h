#pragma once

#include "weft/core/tensor_spec.h"
#include "weft/rules/op_call.h"

#include <ATen/core/boxing/KernelFunction.h>

#include <string>
#include <unordered_map>

namespace weft {

/// An operator that is run as other operators on distributed tensors wherever `applies` says so: a mean over a cut dim
/// is a sum and a division, which moves one number where gathering would move the tensor. Below autograd.
struct Decomposition {
  using Applies = bool (*)(const OpCall& call, c10::ArrayRef<SpecPtr> operands);
  Applies applies;
  c10::KernelFunction kernel;
};

/// By full name: "aten::mean.dim".
using Decompositions = std::unordered_map<std::string, Decomposition>;

/// nullptr where an operator has none.
const Decomposition* find_decomposition(const std::string& full_name);

/// Says where decompositions come from, as the library is loaded. Their kernels work on distributed tensors, so that they
/// are written in a layer above this one (tensor/decompositions).
struct DecompositionSource {
  explicit DecompositionSource(Decompositions (*make)());
};

} // namespace weft
