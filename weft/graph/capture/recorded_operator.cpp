#include "weft/graph/capture/recorded_operator.h"

#include <algorithm>
#include <array>

namespace weft::graph {

bool takes_tensors(c10::ArrayRef<c10::IValue> arguments) {
  bool found = false;
  for (const auto& value : arguments) {
    each_tensor(value, [&](const at::Tensor&) { found = true; });
  }
  return found;
}

bool gives_tensors(const c10::FunctionSchema& schema) {
  return std::any_of(schema.returns().begin(), schema.returns().end(), [](const c10::Argument& result) {
    const auto list = result.type()->cast<c10::ListType>();
    return (list ? list->getElementType() : result.type())->isSubtypeOf(*c10::OptionalType::ofTensor());
  });
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

bool is_view(const c10::FunctionSchema& schema) {
  const auto& returns = schema.returns();
  return !schema.is_mutable() && std::any_of(returns.begin(), returns.end(), [](const c10::Argument& result) {
    return result.alias_info() != nullptr;
  });
}

bool gives_blank(const c10::FunctionSchema& schema) {
  static constexpr std::array<std::string_view, 6> kNames = {"aten::empty",         "aten::empty_like",
                                                             "aten::empty_strided", "aten::empty_permuted",
                                                             "aten::new_empty",     "aten::new_empty_strided"};
  return std::find(kNames.begin(), kNames.end(), schema.name()) != kNames.end();
}

bool reads_numbers(const c10::OperatorHandle& op) {
  const auto& name = op.schema().name();
  return op.hasTag(at::Tag::data_dependent_output) || name == "aten::item" || name == "aten::is_nonzero" ||
      name == "aten::equal" || name == "aten::allclose";
}

bool has_open_shape(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) {
  if (!op.hasTag(at::Tag::dynamic_output_shape)) {
    return false;
  }
  const auto& name = op.schema().name();
  if (name == "aten::repeat_interleave") {
    return arguments.back().isNone(); // without the size of the result
  }
  if (name != "aten::index" && name != "aten::_unsafe_index") {
    return true;
  }
  bool has_mask = false;
  each_tensor(arguments[1], [&](const at::Tensor& index) {
    has_mask = has_mask || index.scalar_type() == at::kBool || index.scalar_type() == at::kByte;
  });
  return has_mask;
}

bool is_functional_collective(const c10::OperatorHandle& op) {
  return op.schema().name().starts_with("_c10d_functional::");
}

std::optional<c10::OperatorHandle> taking_number(const c10::OperatorHandle& op) {
  const auto& [name, overload] = op.operator_name();
  if (!overload.starts_with("Tensor")) {
    return std::nullopt;
  }
  // "Tensor" becomes "Scalar", "Tensor_mode" becomes "Scalar_mode", and "Tensor_Tensor" becomes "Tensor_Scalar".
  const auto wanted = overload == "Tensor_Tensor" ? std::string("Tensor_Scalar") : "Scalar" + overload.substr(6);
  const auto found = c10::Dispatcher::singleton().findSchema({name, wanted});
  const auto& arguments = op.schema().arguments();
  const bool fits = found && found->schema().arguments().size() == arguments.size() && arguments.size() > 1 &&
      found->schema().arguments()[1].type()->kind() == c10::TypeKind::NumberType;
  return fits ? found : std::nullopt;
}

std::optional<c10::IValue> wrapped_number(const c10::IValue& value) {
  if (!value.isTensor() || !value.toTensor().defined() ||
      !value.toTensor().unsafeGetTensorImpl()->is_wrapped_number() || !value.toTensor().is_cpu()) {
    return std::nullopt;
  }
  const auto& tensor = value.toTensor();
  // Reads the memory directly, because an operator would be recorded.
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return c10::IValue(*tensor.const_data_ptr<double>());
    case at::kLong:
      return c10::IValue(*tensor.const_data_ptr<int64_t>());
    case at::kBool:
      return c10::IValue(*tensor.const_data_ptr<bool>());
    default:
      return std::nullopt;
  }
}

bool is_default(const c10::Argument& argument, const c10::IValue& value) {
  const auto& assumed = argument.default_value();
  return assumed && assumed->tagKind() == value.tagKind() && *assumed == value;
}

} // namespace weft::graph
