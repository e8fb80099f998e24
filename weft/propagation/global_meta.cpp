#include "weft/propagation/global_meta.h"

#include <ATen/ops/empty_strided.h>

namespace weft {

namespace {

at::Tensor without_data(const at::Tensor& tensor) {
  // A number stays one: kernels in Python, which torch has for tensors without data, are given its value.
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    return tensor;
  }
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(c10::kMeta));
}

c10::IValue without_data(const c10::IValue& value) {
  if (value.isTensor()) {
    return value.toTensor().defined() ? c10::IValue(without_data(value.toTensor())) : value;
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> metas;
    for (const auto& tensor : value.toTensorVector()) {
      metas.push_back(tensor.defined() ? without_data(tensor) : tensor);
    }
    return metas;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> metas;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
      metas.push_back(tensor && tensor->defined() ? std::optional(without_data(*tensor)) : tensor);
    }
    return metas;
  }
  if (value.isDevice()) {
    return c10::Device(c10::kMeta);
  }
  return value.isGenerator() ? c10::IValue() : value;
}

GlobalMeta meta_of(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    return {};
  }
  return {
      true, c10::DimVector(tensor.sizes()), c10::DimVector(tensor.strides()), tensor.storage_offset(),
      tensor.scalar_type()};
}

} // namespace

std::optional<std::vector<GlobalMeta>> global_results(
    const c10::OperatorHandle& op,
    c10::ArrayRef<c10::IValue> arguments) {
  torch::jit::Stack stack;
  for (size_t i = 0; i < arguments.size(); ++i) {
    // Memory that is pinned is not for tensors without data.
    const bool pins = op.schema().arguments()[i].name() == "pin_memory";
    stack.push_back(pins ? c10::IValue() : without_data(arguments[i]));
  }
  try {
    op.callBoxed(stack);
  } catch (const c10::NotImplementedError&) {
    return std::nullopt;
  } catch (const c10::Error& error) {
    // Some operators call another device's kernel by name.
    const std::string_view text = error.what_without_backtrace();
    if (text.find("Meta Backend") == std::string_view::npos && text.find("meta tensor") == std::string_view::npos) {
      throw;
    }
    return std::nullopt;
  } catch (const std::exception& error) {
    // Kernels in Python divide by a number of elements, where those of a device give nan.
    if (std::string_view(error.what()).find("division by zero") == std::string_view::npos) {
      throw;
    }
    return std::nullopt;
  }
  std::vector<GlobalMeta> results;
  for (const auto& value : stack) {
    if (value.isTensor()) {
      results.push_back(meta_of(value.toTensor()));
    } else if (value.isTensorList()) {
      for (const auto& tensor : value.toTensorVector()) {
        results.push_back(meta_of(tensor));
      }
    }
  }
  return results;
}

} // namespace weft
