#include "weft/tensor/kernels/kernels.h"

#include "weft/core/layout_algebra.h"
#include "weft/tensor/boundary/implicit_move.h"
#include "weft/tensor/dispatch/dtensor_kernel.h"
#include "weft/tensor/impl/scopes.h"

#include <algorithm>

namespace weft {

namespace {

using Names = std::vector<std::string_view>;

/// The composite operators by name, with the overload or without: all overloads, or, where arguments are listed whose
/// numbers the operator reads, those overloads that have one of them as a tensor. None of the operators draws random
/// numbers.
const std::vector<std::pair<std::string_view, Names>>& composites() {
  static const std::vector<std::pair<std::string_view, Names>> all = {
      {"aten::_scaled_dot_product_attention_math", {}},
      {"aten::combinations", {}},
      {"aten::ctc_loss.IntList", {}},
      {"aten::ctc_loss", {"input_lengths", "target_lengths"}},
      {"aten::istft", {}},
      {"aten::linalg_matrix_power", {}},
      {"aten::nanquantile", {}},
      {"aten::quantile", {}},
      {"aten::stft", {}},
      {"aten::tensor_split", {"tensor_indices_or_sections"}},
  };
  return all;
}

bool is_listed(const c10::FunctionSchema& schema, const Names& numbers) {
  const auto& arguments = schema.arguments();
  return numbers.empty() || std::any_of(arguments.begin(), arguments.end(), [&](const auto& argument) {
           const bool is_tensor = argument.type()->kind() == c10::TypeKind::TensorType;
           return is_tensor && std::find(numbers.begin(), numbers.end(), argument.name()) != numbers.end();
         });
}

class Composite final : public c10::OperatorKernel {
 public:
  explicit Composite(const Names& numbers) : numbers_(numbers) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, torch::jit::Stack* stack) const {
    const auto& arguments = op.schema().arguments();
    auto* values = stack->data() + stack->size() - arguments.size();
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!values[i].isTensor() || !values[i].toTensor().defined()) {
        continue;
      }
      const auto& tensor = values[i].toTensor();
      if (std::find(numbers_.begin(), numbers_.end(), arguments[i].name()) == numbers_.end()) {
        check_may_be_plain(op, i, tensor);
      } else if (is_dtensor(tensor)) {
        values[i] = gathered_values(op, tensor.detach());
      }
    }
    const ReplicatePlainScope scope;
    op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
  }

 private:
  static at::Tensor gathered_values(const c10::OperatorHandle& op, const at::Tensor& tensor) {
    const auto layout = replicated(as_dtensor(tensor)->spec()->mesh());
    return as_dtensor(move_implicitly(op.schema().name().c_str(), tensor, layout))->local();
  }

  const Names& numbers_;
};

} // namespace

void register_composites(torch::Library& library) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto full = c10::toString(name);
    const auto found = std::find_if(composites().begin(), composites().end(), [&](const auto& each) {
      return each.first == name.name || each.first == full;
    });
    const auto op = found == composites().end() ? std::nullopt : dispatcher.findSchema(name);
    // Forms with out= are in composite_out.cpp.
    if (op && !op->schema().arguments().back().is_out() && is_listed(op->schema(), found->second) &&
        op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) {
      library.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Composite>(found->second)));
    }
  }
}

} // namespace weft
