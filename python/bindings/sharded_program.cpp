#include "python/bindings/bindings.h"
#include "weft/graph/exec/thread_ranks.h"
#include "weft/graph/ir/print.h"
#include "weft/graph/passes/shard.h"
#include "weft/graph/passes/summary.h"
#include "weft/graph/pt2/read_pt2.h"
#include "weft/graph/pt2/write_pt2.h"

#include <ATen/ATen.h>
#include <pybind11/stl.h>

#include <set>

namespace weft::python {

namespace {

graph::Program sharded(
    const std::string& path,
    const std::string& mesh,
    const nn::ParallelPlan& plan,
    const std::optional<std::string>& mesh_dim,
    const std::map<std::string, std::string>& inputs,
    const std::map<size_t, std::string>& outputs) {
  graph::TensorParallelOptions options{.mesh_dim = mesh_dim};
  for (const auto& [name, layout] : inputs) {
    options.inputs.emplace(name, Layout::parse(layout));
  }
  for (const auto& [position, layout] : outputs) {
    options.outputs.emplace(position, Layout::parse(layout));
  }
  auto program = graph::read_pt2(path);
  graph::shard(program, graph::analysis_mesh(mesh), plan, options);
  return program;
}

/// One value per user input, by name; those that are always the same need not be given.
std::vector<c10::IValue> values_of(const graph::Program& program, const std::map<std::string, at::Tensor>& inputs) {
  std::vector<c10::IValue> values;
  for (const auto& input : program.inputs) {
    if (input.kind != graph::InputKind::User) {
      continue;
    }
    if (input.constant) {
      values.push_back(*input.constant);
      continue;
    }
    const auto& name = input.value->name();
    const auto found = inputs.find(name);
    TORCH_CHECK_VALUE(found != inputs.end(), "[ShardedProgram.run] the input \"", name, "\" is missing.");
    values.emplace_back(input.value->is_tensor() ? c10::IValue(found->second) : c10::IValue(found->second.item()));
  }
  return values;
}

/// Every rank's outputs, with ranks as threads of this process.
std::vector<std::vector<at::Tensor>> run(const graph::Program& program, const std::map<std::string, at::Tensor>& inputs) {
  std::vector<std::shared_ptr<const graph::Program>> ranks;
  for (const auto rank : program.mesh->ranks()) {
    ranks.push_back(std::make_shared<const graph::Program>(graph::program_of_rank(program, rank)));
  }
  graph::ThreadRanks threads(std::move(ranks));
  std::vector<std::vector<at::Tensor>> result;
  for (const auto& outputs : threads.run_alike(values_of(program, inputs))) {
    auto& tensors = result.emplace_back();
    for (const auto& output : outputs) {
      tensors.push_back(
          output.isTensor()     ? output.toTensor()
              : output.isNone() ? at::Tensor()
                                : at::scalar_tensor(output.toScalar()));
    }
  }
  return result;
}

/// The mesh dims that collectives span, each set once, as they are named in groups.
std::vector<std::string> groups(const graph::Program& program) {
  std::set<std::string> all;
  for (const auto* node = program.graph->first(); node != nullptr; node = node->next()) {
    if (const auto* step = node->step(); step != nullptr && communicates(step->kind)) {
      all.insert(program.mesh->dims_text(step->mesh_dims));
      // Uneven pieces go over one mesh dim at a time.
      for (const auto m : step->mesh_dims) {
        all.insert(program.mesh->name(m));
      }
    }
  }
  return {all.begin(), all.end()};
}

} // namespace

void bind_sharded_program(py::module_& module) {
  using graph::Program;
  py::class_<Program>(module, "ShardedProgram")
      .def(
          py::init(&sharded), py::arg("path"), py::arg("mesh"), py::arg("plan"), py::arg("mesh_dim") = py::none(),
          py::arg("inputs") = std::map<std::string, std::string>(),
          py::arg("outputs") = std::map<size_t, std::string>(), py::call_guard<py::gil_scoped_release>())
      .def("groups", &groups)
      .def("summary", [](const Program& program) { return graph::summarize(program).to_json(); })
      .def("__str__", [](const Program& program) { return graph::to_string(program); })
      .def("run", &run, py::arg("inputs"), py::call_guard<py::gil_scoped_release>())
      .def(
          "write",
          [](const Program& program, int64_t rank, const std::string& path, const std::map<std::string, std::string>& names) {
            graph::write_pt2(graph::program_of_rank(program, rank, {.group_names = names}), path);
          },
          py::arg("rank"), py::arg("path"), py::arg("group_names") = std::map<std::string, std::string>(),
          py::call_guard<py::gil_scoped_release>());
}

} // namespace weft::python
