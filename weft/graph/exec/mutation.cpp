#include "weft/graph/exec/mutation.h"

namespace weft::graph {

std::vector<Mutation> find_mutations(const Program& program) {
  std::vector<Mutation> mutations;
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const auto& output = program.outputs[i];
    if (output.kind == OutputKind::User) {
      continue;
    }
    const auto is_target = [&](const Input& input) {
      if (output.kind == OutputKind::InputMutation) {
        return input.kind == InputKind::User && input.value != nullptr && input.value->name() == output.target;
      }
      return input.kind != InputKind::User && input.target == output.target;
    };
    const auto found = std::find_if(program.inputs.begin(), program.inputs.end(), is_target);
    TORCH_CHECK_VALUE(
        found != program.inputs.end(),
        "[Executor] what an output is written to must be an input of the program, but got '", output.target, "'.");
    mutations.push_back({i, static_cast<size_t>(found - program.inputs.begin())});
  }
  return mutations;
}

void write_back(
    std::vector<c10::IValue>& outputs,
    c10::ArrayRef<Mutation> mutations,
    c10::ArrayRef<at::Tensor> targets) {
  for (auto& output : outputs) {
    if (!output.isTensor()) {
      continue;
    }
    const auto& tensor = output.toTensor();
    for (const auto& target : targets) {
      if (tensor.is_alias_of(target)) {
        output = tensor.clone();
        break;
      }
    }
  }
  for (size_t i = 0; i < mutations.size(); ++i) {
    targets[i].copy_(outputs[mutations[i].output].toTensor());
  }
}

} // namespace weft::graph
