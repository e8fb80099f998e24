#include "weft/propagation/global_meta.h"

#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <array>

namespace weft {

namespace {

at::Tensor without_data(const at::Tensor& tensor) {
  // Keeps a number as it is: torch's Python kernels for meta tensors read its value.
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    return tensor;
  }
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(c10::kMeta));
}

/// A mask in uint8 counts as one in bool, but torch's kernel for tensors without data takes it for no index at all.
at::Tensor index_without_data(const at::Tensor& index) {
  const auto meta = without_data(index);
  return meta.scalar_type() == c10::kByte ? meta.to(c10::kBool) : meta;
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
      metas.push_back(tensor && tensor->defined() ? std::optional(index_without_data(*tensor)) : tensor);
    }
    return metas;
  }
  if (value.isDevice()) {
    return c10::Device(c10::kMeta);
  }
  return value.isGenerator() ? c10::IValue() : value;
}

/// Whether an error of a run without data says that there is none, or that torch's kernel for tensors without data takes
/// less than those of devices do, rather than that the arguments are wrong.
bool is_for_want_of_data(std::string_view text) {
  constexpr std::array<std::string_view, 7> kSigns = {
      "Meta Backend", // operators that call another device's kernel by name
      "meta tensor",
      "data-independent implementation does not exist", // sizes that depend on values: of a mask
      "division by zero",                               // Python's, by a number of elements; devices give nan
      "to have an integral dtype. Got torch.bool",      // bool << int
      "Expected inputs of BF16 type",                   // _grouped_mm, which takes floats on devices
      "Expected scalars to be on CPU",                  // _foreach_addcdiv with a tensor of numbers
  };
  return std::any_of(
      kSigns.begin(), kSigns.end(), [&](std::string_view sign) { return text.find(sign) != std::string_view::npos; });
}

GlobalMeta meta_of(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    return {};
  }
  return {
      true, c10::DimVector(tensor.sizes()), c10::DimVector(tensor.strides()), tensor.storage_offset(),
      tensor.scalar_type()};
}

c10::SmallVector<at::Tensor, 1> tensors_of(const c10::IValue& value) {
  if (value.isTensor()) {
    return {value.toTensor()};
  }
  const auto list = value.isTensorList() ? value.toTensorVector() : std::vector<at::Tensor>();
  return c10::SmallVector<at::Tensor, 1>(list.begin(), list.end());
}

/// Raises if a kernel would resize an out= argument, because it would resize only the local tensor of a distributed
/// one.
void check_not_resized(
    const c10::FunctionSchema& schema,
    c10::ArrayRef<c10::IValue> arguments,
    c10::ArrayRef<c10::IValue> metas) {
  for (size_t i = 0; i < metas.size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (alias == nullptr || !alias->isWrite()) {
      continue;
    }
    const auto given = tensors_of(arguments[i]);
    const auto written = tensors_of(metas[i]);
    for (size_t k = 0; k < written.size(); ++k) {
      TORCH_CHECK_VALUE(
          !written[k].defined() || written[k].sizes() == given[k].sizes(), "[", schema.name(), "] argument '",
          schema.arguments()[i].name(), "' must have the shape of the result, ", written[k].sizes(), ", but got ",
          given[k].sizes(), ": a distributed tensor is not resized. Use the functional form.");
    }
  }
}

} // namespace

std::optional<std::vector<GlobalMeta>> global_results(
    const c10::OperatorHandle& op,
    c10::ArrayRef<c10::IValue> arguments) {
  torch::jit::Stack stack;
  for (size_t i = 0; i < arguments.size(); ++i) {
    // Meta tensors cannot be pinned.
    const bool pins = op.schema().arguments()[i].name() == "pin_memory";
    stack.push_back(pins ? c10::IValue() : without_data(arguments[i]));
  }
  const auto metas = stack;
  try {
    op.callBoxed(stack);
  } catch (const c10::NotImplementedError&) {
    return std::nullopt;
  } catch (const c10::Error& error) {
    if (!is_for_want_of_data(error.what_without_backtrace())) {
      throw;
    }
    return std::nullopt;
  } catch (const std::exception& error) { // of kernels in Python
    if (!is_for_want_of_data(error.what())) {
      throw;
    }
    return std::nullopt;
  }
  check_not_resized(op.schema(), arguments, metas);
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
