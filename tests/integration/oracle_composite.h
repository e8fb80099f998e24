#pragma once

#include "tests/integration/samples.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace weft::testing {

/// Whether torch decomposes the operator before dispatch could ask its rule: a composite, whose rule is for programs that
/// keep it.
bool is_taken_apart(const c10::OperatorHandle& op);

/// Calls an operator on plain tensors, or on distributed ones by its rule, whatever dispatch does with it. There are no
/// gradients. Arguments that are not given have their defaults.
Inputs call_composite(const c10::OperatorHandle& op, std::vector<c10::IValue> arguments);

/// What a call left on the stack.
Inputs tensors_on(const std::vector<c10::IValue>& stack);

/// The operator of this name, as "aten::split.sizes".
c10::OperatorHandle operator_named(const std::string& name);

} // namespace weft::testing
