#include "weft/graph/parallelize/shared_heads.h"

#include "weft/graph/analysis/graph_builder.h"

namespace weft::graph {

namespace {

/// The operand that an argument of this name is; none where there is no such argument or no value.
std::optional<size_t> operand_named(const Node& node, const std::string& name) {
  const auto position = node.op()->schema().argumentIndexWithName(name);
  return position && node.arguments()[*position].is_operand()
      ? std::optional<size_t>(node.arguments()[*position].operand())
      : std::nullopt;
}

std::optional<int64_t> heads_of(const Value* value) {
  const auto& sizes = value->tensor().sizes;
  return sizes.size() == 4 && sizes[1].is_number() ? std::optional<int64_t>(sizes[1].number()) : std::nullopt;
}

/// The mesh dim that alone cuts the heads of the query and leaves key and value whole.
std::optional<int64_t> sharing_mesh_dim(const Value* query, const Value* key, const Value* value) {
  const auto cuts = query->layout->shard_order(1);
  if (cuts.size() != 1 || (*query->layout)[cuts[0]].split_factor() != 1 || !key->layout->shard_order(1).empty() ||
      !value->layout->shard_order(1).empty()) {
    return std::nullopt;
  }
  return cuts[0];
}

Value* repeated(GraphBuilder& build, Value* value, int64_t times) {
  auto sizes = value->tensor().sizes;
  sizes[1] = sizes[1] * Size(times);
  auto* result = build.call(
      "aten::repeat_interleave.self_int", {value, c10::IValue(times), c10::IValue(1)},
      contiguous_type(value->tensor().dtype, sizes, value->tensor().device));
  result->layout = value->layout;
  return result;
}

} // namespace

bool repeat_shared_heads(Graph& graph, Node* node, const DeviceMesh& mesh) {
  if (node->op()->schema().name().find("scaled_dot_product") == std::string::npos) {
    return false;
  }
  const auto query = operand_named(*node, "query");
  const auto key = operand_named(*node, "key");
  const auto value = operand_named(*node, "value");
  if (!query || !key || !value) {
    return false;
  }
  const auto heads = heads_of(node->operand(*query));
  const auto shared = heads_of(node->operand(*key));
  const auto mesh_dim = heads && shared
      ? sharing_mesh_dim(node->operand(*query), node->operand(*key), node->operand(*value))
      : std::nullopt;
  if (!mesh_dim || *shared == 0 || heads_of(node->operand(*value)) != shared) {
    return false;
  }
  const auto ranks = mesh.size(*mesh_dim);
  if (*shared >= ranks || ranks % *shared != 0 || *heads % ranks != 0) {
    return false;
  }
  GraphBuilder build(graph, node);
  build.set_origin(node->origin);
  for (const auto operand : {*key, *value}) {
    node->set_operand(operand, repeated(build, node->operand(operand), ranks / *shared));
  }
  return true;
}

} // namespace weft::graph
