#include "weft/graph/parallelize/tensor_parallel_options.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace weft::graph {

namespace {

void check_layout(const DeviceMesh& mesh, const Layout& layout, const std::string& of) {
  TORCH_CHECK_VALUE(
      layout.ndim() == mesh.ndim(), "[tensor_parallel] a layout of ", of, " with a placement for every dim of ", mesh,
      " is required, but got ", layout, ".");
}

} // namespace

void TensorParallelOptions::check(const Program& program, const DeviceMesh& mesh) const {
  std::vector<std::string> names;
  for (const auto& input : program.inputs) {
    if (input.kind == InputKind::User && input.value != nullptr && input.value->is_tensor()) {
      names.push_back(input.value->name());
    }
  }
  for (const auto& [name, layout] : inputs) {
    TORCH_CHECK_VALUE(
        std::find(names.begin(), names.end(), name) != names.end(),
        "[tensor_parallel] a layout is given for the input \"", name, "\", but the program's inputs are ",
        c10::Join(", ", names), ".");
    check_layout(mesh, layout, "the input \"" + name + "\"");
  }
  const auto user_outputs = std::count_if(program.outputs.begin(), program.outputs.end(), [](const Output& output) {
    return output.kind == OutputKind::User;
  });
  for (const auto& [position, layout] : outputs) {
    TORCH_CHECK_VALUE(
        position < static_cast<size_t>(user_outputs), "[tensor_parallel] a layout is given for output ", position,
        ", but the program has ", user_outputs, " outputs.");
    check_layout(mesh, layout, c10::str("output ", position));
  }
}

} // namespace weft::graph
