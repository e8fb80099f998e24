#include "weft/tensor/dispatch/outside_call.h"

#include <ATen/ATen.h>

namespace weft {

namespace {

at::Tensor empty_result(const PreparedOutput& output, const DTensorImpl* base) {
  if (!output.spec) {
    return {};
  }
  const auto options = at::TensorOptions().dtype(output.spec->dtype()).device(output.like->device());
  auto result = make_dtensor_like(*output.like, at::zeros(output.spec->local_shape_and_offset().shape, options));
  if (output.is_view) {
    as_dtensor(result)->become_view(*base, output.offset, output.is_copy);
  }
  return result;
}

bool has_tensors_alone(const OperatorSchema& schema) {
  return std::all_of(schema.returns.begin(), schema.returns.end(), [](const auto& ret) { return ret.is_tensor; });
}

} // namespace

void run_outside(
    const c10::OperatorHandle& op,
    const OperatorSchema& schema,
    const PreparedCall& call,
    torch::jit::Stack& stack) {
  const auto& mesh = call.operands[0]->mesh();
  const bool gives_tensors = has_tensors_alone(schema);
  TORCH_CHECK_VALUE(
      gives_tensors && call.outputs_known, "[", op.schema().name(), "] rank ", mesh.world()->rank(), " is not in ",
      mesh.to_string(), ", whose ranks alone know ",
      gives_tensors ? "the sizes of the result" : "the number that this operator returns",
      ". Call it on those ranks only, where mesh.is_member() (in Python mesh.get_coordinate() is not None).");
  const auto arguments = torch::jit::pop(stack, schema.arguments.size());
  for (const auto argument : schema.written) {
    if (arguments[argument].isTensor() && is_dtensor(arguments[argument].toTensor())) {
      as_dtensor(arguments[argument].toTensor())->count_write();
    }
  }
  size_t next = 0;
  for (size_t r = 0; r < schema.returns.size(); ++r) {
    const auto& ret = schema.returns[r];
    if (ret.stored_in >= 0) {
      stack.push_back(arguments[ret.stored_in]);
      continue;
    }
    const auto* base = ret.view_of >= 0 ? as_dtensor(arguments[ret.view_of].toTensor()) : nullptr;
    if (op.schema().returns()[r].type()->kind() != c10::TypeKind::ListType) {
      stack.emplace_back(empty_result(call.outputs.at(next++), base));
      continue;
    }
    std::vector<at::Tensor> list; // an operator that returns a list returns nothing else
    for (const auto& output : call.outputs) {
      list.push_back(empty_result(output, base));
    }
    stack.emplace_back(std::move(list));
  }
}

} // namespace weft
