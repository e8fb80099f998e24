#pragma once

#include "python/bindings/bindings.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

namespace weft::python {

/// A constant argument of an fx node as a program stores it, by the argument's type in the operator's schema; nothing for
/// an object that the type does not take.
///
///   constant_of(torch.float32, "ScalarType?")     6
///   constant_of([2, 3], "SymInt[]")               [2, 3]
std::optional<c10::IValue> constant_of(py::handle object, const c10::TypePtr& type);

/// The same back.
py::object object_of(const c10::IValue& constant, const c10::TypePtr& type);

} // namespace weft::python
