#pragma once

#include "weft/core/tensor_spec.h"
#include "weft/rules/op_call.h"

#include <ATen/core/boxing/KernelFunction.h>

#include <string>

namespace weft {

/// An operator that is run as other operators on distributed tensors wherever `applies` says so: a mean over a cut dim
/// is a sum and a division, which moves one number where gathering would move the tensor. Below autograd.
struct Decomposition {
  using Applies = bool (*)(const OpCall& call, c10::ArrayRef<SpecPtr> operands);
  Applies applies;
  c10::KernelFunction kernel;
};

/// The decomposition of an operator by its full name ("aten::mean.dim"); nullptr where it has none.
const Decomposition* find_decomposition(const std::string& full_name);

} // namespace weft
