#include "weft/nn/on_meta.h"

#include <ATen/core/Tensor.h>

namespace weft::nn {

namespace {

bool takes_tensors(const c10::FunctionSchema& schema) {
  return std::any_of(schema.arguments().begin(), schema.arguments().end(), [](const c10::Argument& argument) {
    const auto list = argument.type()->cast<c10::ListType>();
    return (list ? list->getElementType() : argument.type())->kind() == c10::TypeKind::TensorType;
  });
}

/// The index of the device argument of a factory function; empty for other operators.
std::optional<size_t> device_argument(const c10::FunctionSchema& schema) {
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto optional = schema.arguments()[i].type()->cast<c10::OptionalType>();
    if (optional && optional->getElementType()->kind() == c10::TypeKind::DeviceObjType) {
      return i;
    }
  }
  return std::nullopt;
}

} // namespace

void OnMeta::call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const auto position = takes_tensors(schema) ? std::nullopt : device_argument(schema);
  if (position) {
    auto& device = torch::jit::peek(*stack, *position, schema.arguments().size());
    device = device.isNone() ? c10::Device(c10::kMeta) : device;
  }
  op.redispatchBoxed(keys, stack);
}

} // namespace weft::nn
