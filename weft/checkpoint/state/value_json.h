#pragma once

#include <ATen/core/ivalue.h>

#include <string>

namespace weft {

/// A value of a checkpoint as JSON, and back. What JSON lacks is an object of one key: {"float": "nan"}, {"tuple": [1, 2]},
/// {"int": "<digits>"} for one of more than 64 bits, which Python has, and {"dict": [[key, value], ...]} for a dict whose keys are
/// not texts, or that would be taken for one of these. {"tensor": name} is in the state of Python's objects: it stands for the tensor
/// of that name.
///
///   value_json(2.5)                      // "2.5"
///   value_json(std::tuple(1, "a"))       // {"tuple":[1,"a"]}
///
/// Raises for values of other types; `name` is the value's in the error.
std::string value_json(const c10::IValue& value, const std::string& name);
c10::IValue parse_value(const std::string& json, const std::string& name);

} // namespace weft
