#include "weft/graph/parallelize/shared_heads.h"

#include "weft/core/shared_heads.h"
#include "weft/graph/analysis/graph_builder.h"

namespace weft::graph {

namespace {

/// The operand of the argument of this name; none if there is no such argument or if it is not a value.
std::optional<size_t> operand_named(const Node& node, const std::string& name) {
  const auto position = node.op()->schema().argumentIndexWithName(name);
  return position && node.arguments()[*position].is_operand()
      ? std::optional<size_t>(node.arguments()[*position].operand())
      : std::nullopt;
}

std::optional<int64_t> heads_of(const Value* value) {
  const auto& sizes = value->tensor().sizes;
  return sizes.size() == 4 && sizes[kHeadDim].is_number() ? std::optional<int64_t>(sizes[kHeadDim].number())
                                                          : std::nullopt;
}

Value* repeated(GraphBuilder& build, Value* value, int64_t times) {
  auto sizes = value->tensor().sizes;
  sizes[kHeadDim] = sizes[kHeadDim] * Size(times);
  auto* result = build.call(
      "aten::repeat_interleave.self_int", {value, c10::IValue(times), c10::IValue(kHeadDim)},
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
  if (!heads || !shared || heads_of(node->operand(*value)) != shared) {
    return false;
  }
  const auto& layout = *node->operand(*query)->layout;
  const auto parts_for = [&](size_t operand) {
    return shards_sharing_heads(*heads, *shared, layout, *node->operand(operand)->layout, mesh.shape());
  };
  const auto parts = parts_for(*key);
  // Repeating gives every rank its own head if its shard of the query uses only one head.
  if (!parts || !parts_for(*value) || layout.shard_order(kHeadDim).size() != 1 || *parts % *shared != 0 ||
      *heads % *parts != 0) {
    return false;
  }
  GraphBuilder build(graph, node);
  build.set_origin(node->origin);
  for (const auto operand : {*key, *value}) {
    node->set_operand(operand, repeated(build, node->operand(operand), *parts / *shared));
  }
  return true;
}

} // namespace weft::graph
