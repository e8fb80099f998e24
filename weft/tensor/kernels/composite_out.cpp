#include "weft/tensor/kernels/kernels.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <map>

namespace weft {

namespace {

using Arguments = c10::ArrayRef<c10::Argument>;

/// The arguments in front of those for out=.
Arguments read_arguments(const c10::FunctionSchema& schema) {
  const auto& all = schema.arguments();
  const auto out =
      std::find_if(all.begin(), all.end(), [](const c10::Argument& argument) { return argument.is_out(); });
  return Arguments(all).slice(0, out - all.begin());
}

bool are_alike(Arguments a, Arguments b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const c10::Argument& one, const c10::Argument& other) {
    return one.name() == other.name() && *one.type() == *other.type();
  });
}

/// An operator with out= arguments, and the one of the same name that returns what it stores.
struct Forms {
  c10::OperatorHandle stores;
  c10::OperatorHandle returns;
};

/// Of all composite operators but matmul, which has a rule, and factories, whose forms without out= take a dtype and a device.
std::vector<Forms> composite_forms() {
  auto& dispatcher = c10::Dispatcher::singleton();
  std::multimap<std::string, c10::OperatorHandle> returning;
  std::vector<c10::OperatorHandle> storing;
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = name.name.starts_with("aten::") ? dispatcher.findSchema(name) : std::nullopt;
    if (op && !op->schema().arguments().empty() && op->schema().arguments().back().is_out()) {
      storing.push_back(*op);
    } else if (op) {
      returning.emplace(name.name, *op);
    }
  }
  std::vector<Forms> found;
  for (const auto& op : storing) {
    const auto [begin, end] = returning.equal_range(op.operator_name().name);
    const auto form = std::find_if(begin, end, [&](const auto& candidate) {
      return are_alike(read_arguments(op.schema()), candidate.second.schema().arguments());
    });
    if (form != end && form->first != "aten::matmul" &&
        op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) {
      found.push_back({op, form->second});
    }
  }
  return found;
}

void check_wants_no_gradient(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) {
  const auto wants = [](const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); };
  const auto wants_any = [&](const c10::IValue& argument) {
    const auto tensors = argument.isTensorList() ? argument.toTensorVector() : std::vector<at::Tensor>();
    return (argument.isTensor() && wants(argument.toTensor())) || std::any_of(tensors.begin(), tensors.end(), wants);
  };
  TORCH_CHECK(
      !at::GradMode::is_enabled() || std::none_of(arguments.begin(), arguments.end(), wants_any), "[",
      op.schema().name(),
      "] tensors that require no gradient are required with out=, but got one that does. Use the functional form.");
}

void store(const c10::OperatorHandle& op, size_t argument, const at::Tensor& out, const at::Tensor& result) {
  const auto& name = op.schema().arguments()[argument].name();
  TORCH_CHECK_VALUE(
      out.sizes() == result.sizes(), "[", op.schema().name(), "] argument '", name,
      "' must have the shape of the result, ", result.sizes(), ", but got ", out.sizes(),
      ": a distributed tensor is not resized. Use the functional form.");
  TORCH_CHECK(
      c10::canCast(result.scalar_type(), out.scalar_type()), "[", op.schema().name(), "] argument '", name,
      "' must have a dtype that holds the result, ", result.scalar_type(), ", but got ", out.scalar_type(),
      ". Use the functional form.");
  out.copy_(result);
}

class StoresResult final : public c10::OperatorKernel {
 public:
  explicit StoresResult(const c10::OperatorHandle& returns) : returns_(returns) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, torch::jit::Stack* stack) const {
    const auto arguments = torch::jit::pop(*stack, op.schema().arguments().size());
    check_wants_no_gradient(op, arguments);
    const auto read = returns_.schema().arguments().size();
    torch::jit::Stack results(arguments.begin(), arguments.begin() + static_cast<int64_t>(read));
    returns_.callBoxed(results);
    for (size_t i = 0; i < results.size(); ++i) {
      store(op, read + i, arguments[read + i].toTensor(), results[i].toTensor());
      stack->push_back(arguments[read + i]);
    }
  }

 private:
  c10::OperatorHandle returns_;
};

} // namespace

void register_composite_outs(torch::Library& library) {
  static const auto forms = composite_forms();
  for (const auto& [stores, returns] : forms) {
    library.impl(
        c10::toString(stores.operator_name()).c_str(),
        torch::CppFunction::makeFromBoxedFunctor(std::make_unique<StoresResult>(returns)));
  }
}

} // namespace weft
