#include "weft/graph/deploy/traced_program.h"

#include "weft/graph/deploy/new_folder.h"
#include "weft/graph/pt2/read_pt2.h"
#include "weft/graph/pt2/write_pt2.h"

namespace weft::graph {

namespace {

void rename_groups(Graph& graph, const std::map<std::string, std::string>& mesh_dims) {
  for (auto* node = graph.first(); node != nullptr; node = node->next()) {
    const auto position =
        node->op() == nullptr ? std::nullopt : node->op()->schema().argumentIndexWithName("group_name");
    if (!position || !node->arguments()[*position].is_constant()) {
      continue;
    }
    const auto name = node->arguments()[*position].constant().toStringRef();
    const auto found = mesh_dims.find(name);
    TORCH_CHECK_VALUE(
        found != mesh_dims.end(), "[save_exported] a group along dims of the mesh is required, but ",
        target_name(*node), " uses the group \"", name, "\". Call collectives through distributed tensors.");
    node->set_constant(*position, found->second);
  }
}

/// Gives a value of a rank's program the type and layout of the global tensor.
void make_global(Value& value, const SpecPtr& spec, const DeviceMesh& mesh) {
  if (!value.is_tensor()) {
    return;
  }
  if (spec == nullptr) {
    value.layout = Layout(std::vector<Placement>(mesh.ndim(), Replicate()));
    return;
  }
  value.type = contiguous_type(spec->dtype(), Sizes(spec->sizes().begin(), spec->sizes().end()));
  value.layout = spec->layout();
}

} // namespace

Manifest::RankFile write_traced(
    const std::string& traced,
    const std::string& folder,
    int64_t rank,
    const std::map<std::string, std::string>& mesh_dims) {
  const auto program = read_pt2(traced);
  rename_groups(*program.graph, mesh_dims);
  const auto name = rank_file_name(rank);
  write_pt2(program, folder + "/" + name);
  return describe_rank_file(folder, name);
}

Manifest manifest_of_traced(
    const std::string& of_rank,
    const DeviceMesh& mesh,
    const std::vector<SpecPtr>& inputs,
    const std::vector<SpecPtr>& outputs) {
  auto program = read_pt2(of_rank);
  program.mesh = mesh;
  size_t position = 0;
  for (const auto& input : program.inputs) {
    if (input.kind == InputKind::User) {
      if (!input.constant) {
        make_global(*input.value, inputs.at(position), mesh);
      }
      ++position;
    }
  }
  position = 0;
  for (const auto& output : program.outputs) {
    if (output.kind == OutputKind::User) {
      if (!output.constant) {
        make_global(*program.graph->return_node()->operand(output.operand), outputs.at(position), mesh);
      }
      ++position;
    }
  }
  return manifest_of(program);
}

} // namespace weft::graph
