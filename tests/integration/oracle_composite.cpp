#include "tests/integration/oracle_composite.h"

#include "weft/tensor/dispatch.h"
#include "weft/tensor/dispatch/dtensor_kernel.h"
#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/impl/install_dispatch.h"

#include <c10/core/GradMode.h>

#include <map>
#include <memory>
#include <mutex>

namespace weft::testing {

namespace {

/// Kept for the life of the process, as those of dispatch: calls are remembered by the kernel they are of.
const DTensorKernel& kernel_of(const c10::OperatorHandle& op) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<DTensorKernel>> kernels;
  const std::lock_guard<std::mutex> lock(mutex);
  auto& kernel = kernels[c10::toString(op.operator_name())];
  if (!kernel) {
    kernel = std::make_unique<DTensorKernel>(op);
  }
  return *kernel;
}

bool is_distributed(const c10::IValue& value) {
  if (value.isTensor()) {
    return value.toTensor().defined() && is_dtensor(value.toTensor());
  }
  if (!value.isTensorList()) {
    return false;
  }
  const auto list = value.toTensorVector();
  return std::any_of(list.begin(), list.end(), [](const at::Tensor& tensor) { return is_dtensor(tensor); });
}

} // namespace

bool is_taken_apart(const c10::OperatorHandle& op) {
  install_dispatch();
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
      !op.hasKernelForDispatchKey(kDTensorKey);
}

Inputs call_composite(const c10::OperatorHandle& op, std::vector<c10::IValue> arguments) {
  const auto& schema = op.schema().arguments();
  for (auto i = arguments.size(); i < schema.size(); ++i) {
    TORCH_CHECK(schema[i].default_value(), op.schema(), " needs the argument ", schema[i].name());
    arguments.push_back(*schema[i].default_value());
  }
  const c10::NoGradGuard no_gradients;
  if (std::any_of(arguments.begin(), arguments.end(), is_distributed)) {
    kernel_of(op).call({}, &arguments);
  } else {
    op.callBoxed(arguments);
  }
  auto outputs = tensors_on(arguments);
  for (auto& output : outputs) {
    output = output.detach(); // it may be an argument, as it was
  }
  return outputs;
}

Inputs tensors_on(const std::vector<c10::IValue>& stack) {
  Inputs tensors;
  for (const auto& value : stack) {
    if (value.isTensor()) {
      tensors.push_back(value.toTensor());
    } else if (value.isTensorList()) {
      const auto list = value.toTensorVector();
      tensors.insert(tensors.end(), list.begin(), list.end());
    }
  }
  return tensors;
}

c10::OperatorHandle operator_named(const std::string& name) {
  const auto dot = name.find('.');
  const auto overload = dot == std::string::npos ? "" : name.substr(dot + 1);
  return c10::Dispatcher::singleton().findSchemaOrThrow(name.substr(0, dot).c_str(), overload.c_str());
}

} // namespace weft::testing
