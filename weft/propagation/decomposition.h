#pragma once

#include "weft/core/tensor_spec.h"
#include "weft/rules/op_call.h"

#include <ATen/core/boxing/KernelFunction.h>

#include <string>
#include <unordered_map>

namespace weft {

/// An operator that runs as other operators on distributed tensors if `applies` returns true. For example, a mean over
/// a sharded dim is a sum and a division, which transfers one number per mean instead of gathering the tensor. It runs
/// below autograd.
struct Decomposition {
  using Applies = bool (*)(const OpCall& call, c10::ArrayRef<SpecPtr> operands);
  Applies applies;
  c10::KernelFunction kernel;
  /// False if the kernel communicates in a way that no operators of a program express: programs run the operator by its rule.
  bool is_in_programs = true;
};

/// By full name: "aten::mean.dim".
using Decompositions = std::unordered_map<std::string, Decomposition>;

/// The decomposition of an operator, or nullptr.
const Decomposition* find_decomposition(const std::string& full_name);

/// Registers the source of decompositions when the library is loaded. Their kernels work on distributed tensors, so
/// they are in a layer above this one (tensor/decompositions).
struct DecompositionSource {
  explicit DecompositionSource(Decompositions (*make)());
};

} // namespace weft
