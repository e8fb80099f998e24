#include "python/bindings/bindings.h"
#include "weft/comm/world/fake_world.h"
#include "weft/graph/analysis/fused_node.h"
#include "weft/graph/analysis/summary.h"
#include "weft/graph/deploy/global_run.h"
#include "weft/graph/deploy/shard.h"
#include "weft/graph/ir/print.h"
#include "weft/graph/localize/global_values.h"
#include "weft/graph/pt2/crc32.h"
#include "weft/graph/pt2/read_pt2.h"
#include "weft/graph/pt2/write_pt2.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <set>

namespace weft::python {

namespace {

/// A program made parallel, and for each collective next to a matmul whether they are fused.
struct Sharded {
  graph::Program program;
  graph::OverlapDecisions overlap;
};

Sharded sharded(
    const std::string& path,
    const std::string& mesh,
    const nn::ParallelPlan& plan,
    const std::optional<std::string>& mesh_dim,
    const std::map<std::string, std::string>& inputs,
    const std::map<size_t, std::string>& outputs,
    const std::string& overlap,
    const std::optional<std::string>& link,
    const std::optional<std::string>& compute,
    const std::map<std::string, at::Tensor>& weights) {
  graph::TensorParallelOptions options{.mesh_dim = mesh_dim};
  for (const auto& [name, layout] : inputs) {
    options.inputs.emplace(name, Layout::parse(layout));
  }
  for (const auto& [position, layout] : outputs) {
    options.outputs.emplace(position, Layout::parse(layout));
  }
  graph::OverlapOptions overlapping{.mode = parse_overlap_mode(overlap)};
  if (link) {
    overlapping.link = parse_link(*link);
  }
  if (compute) {
    overlapping.compute = parse_compute(*compute);
  }
  auto program = graph::read_pt2(path);
  for (auto& [name, tensor] : program.tensors) {
    const auto given = weights.find(name);
    tensor = given == weights.end() ? tensor : given->second;
  }
  auto decisions = graph::shard(program, analysis_mesh(mesh), plan, options, overlapping);
  return {std::move(program), std::move(decisions)};
}

using GlobalWeight = std::function<at::Tensor(const std::string& name)>;

/// Replaces the local weights of a rank by shards of others, which are given one at a time, in the order of the inputs.
void replace_weights(graph::Program& own, const Sharded& sharded, int64_t rank, const GlobalWeight& global_weight) {
  const auto place = graph::place_in(*sharded.program.mesh, rank);
  std::unordered_map<const void*, at::Tensor> shared; // by the memory of tensors that several names share
  for (const auto& input : sharded.program.inputs) {
    const auto found = input.kind == graph::InputKind::User ? own.tensors.end() : own.tensors.find(input.target);
    if (found == own.tensors.end()) {
      continue;
    }
    const auto& given = sharded.program.tensors.at(input.target);
    auto& local = shared[given.numel() == 0 ? &given : given.const_data_ptr()];
    if (!local.defined() || local.sizes() != found->second.sizes()) {
      local = graph::local_value(global_weight(input.target), *input.value->layout, place).clone();
    }
    found->second = local;
  }
}

/// Writes the program of a rank. `global_weight` has the weights, if those that the program was given do not count.
void write(
    const Sharded& sharded,
    int64_t rank,
    const std::string& path,
    const std::map<std::string, std::string>& group_names,
    const GlobalWeight& global_weight) {
  auto own = graph::program_of_rank(sharded.program, rank, {.group_names = group_names});
  if (global_weight) {
    replace_weights(own, sharded, rank, global_weight);
  }
  graph::write_pt2(own, path);
}

/// The checksum of a tensor's elements, in their order.
uint32_t checksum(const at::Tensor& tensor) {
  const auto elements = tensor.detach().cpu().contiguous();
  return graph::crc32({static_cast<const char*>(elements.const_data_ptr()), elements.nbytes()});
}

/// Global inputs and global outputs, with ranks as threads of this process.
std::vector<at::Tensor> run(const graph::Program& program, const std::map<std::string, at::Tensor>& inputs) {
  std::vector<std::shared_ptr<const graph::Program>> ranks;
  for (const auto rank : program.mesh->ranks()) {
    ranks.push_back(std::make_shared<const graph::Program>(graph::program_of_rank(program, rank)));
  }
  return graph::run_on_threads(std::move(ranks), graph::manifest_of(program))->run(inputs);
}

/// The mesh dims that collectives span, each set once, as they are named in groups.
std::vector<std::string> groups(const graph::Program& program) {
  std::set<std::string> all;
  for (const auto* node = program.graph->first(); node != nullptr; node = node->next()) {
    if (const auto* step = node->step(); step != nullptr && communicates(step->kind)) {
      all.insert(program.mesh->dims_text(step->mesh_dims));
      // Uneven shards go over one mesh dim at a time.
      for (const auto m : step->mesh_dims) {
        all.insert(program.mesh->name(m));
      }
    } else if (const auto fused = graph::fused_node(*node)) {
      all.insert(fused->group);
    }
  }
  return {all.begin(), all.end()};
}

} // namespace

void bind_sharded_program(py::module_& module) {
  py::class_<Sharded>(module, "ShardedProgram")
      .def(
          py::init(&sharded), py::arg("path"), py::arg("mesh"), py::arg("plan"), py::arg("mesh_dim") = py::none(),
          py::arg("inputs") = std::map<std::string, std::string>(),
          py::arg("outputs") = std::map<size_t, std::string>(), py::arg("overlap") = "auto",
          py::arg("link") = py::none(), py::arg("compute") = py::none(),
          py::arg("weights") = std::map<std::string, at::Tensor>(), py::call_guard<py::gil_scoped_release>())
      .def("groups", [](const Sharded& sharded) { return groups(sharded.program); })
      .def("summary", [](const Sharded& sharded) { return graph::summarize(sharded.program).to_json(); })
      .def(
          "overlap",
          [](const Sharded& sharded) {
            std::vector<std::string> lines;
            for (const auto& decision : sharded.overlap) {
              lines.push_back(decision.to_string());
            }
            return lines;
          })
      .def("__str__", [](const Sharded& sharded) { return graph::to_string(sharded.program); })
      .def(
          "run",
          [](const Sharded& sharded, const std::map<std::string, at::Tensor>& inputs) {
            return run(sharded.program, inputs);
          },
          py::arg("inputs"), py::call_guard<py::gil_scoped_release>())
      .def(
          "write", &write, py::arg("rank"), py::arg("path"),
          py::arg("group_names") = std::map<std::string, std::string>(), py::arg("global_weight") = py::none(),
          py::call_guard<py::gil_scoped_release>());
  module.def(
      "checksum", &checksum, py::arg("tensor"), py::call_guard<py::gil_scoped_release>(),
      "The CRC-32 of a tensor's elements.");
}

} // namespace weft::python
