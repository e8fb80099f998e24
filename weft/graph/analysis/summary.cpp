#include "weft/graph/analysis/summary.h"

#include "weft/graph/analysis/fused_node.h"
#include "weft/graph/analysis/local_sizes.h"
#include "weft/graph/analysis/number_text.h"
#include "weft/redistribute/cost.h"

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

namespace weft::graph {

namespace {

int64_t elements(const Sizes& sizes) {
  int64_t count = 1;
  for (const auto& size : sizes) {
    count *= size.number();
  }
  return count;
}

/// The cost of a step's node. Symbols have the values of the export.
class StepCosts {
 public:
  explicit StepCosts(const Program& program)
      : mesh_(*program.mesh), links_(LinkModel::for_mesh(mesh_)), values_(hints(program)) {}

  template <class Measure>
  double of(const Node& node, const Measure& measure) const {
    std::vector<int64_t> sizes;
    const auto fused = fused_node(node);
    const auto& moved = (fused ? fused->moved : node.output())->tensor();
    for (const auto& size : moved.sizes) {
      sizes.push_back(size.evaluate(values_));
    }
    const CostContext context{
        .sizes = sizes,
        .element_bytes = static_cast<int64_t>(c10::elementSize(moved.dtype)),
        .mesh_shape = mesh_.shape(),
        .links = links_};
    return measure(fused ? step_inside(node, *fused, mesh_) : *node.step(), context);
  }

 private:
  DeviceMesh mesh_;
  LinkModel links_;
  Size::Values values_;
};

void count_parameters(const Program& program, Summary& summary) {
  const auto& mesh = *program.mesh;
  std::vector<MeshPlace> places;
  for (const auto rank : mesh.ranks()) {
    places.push_back(place_in(mesh, rank));
  }
  summary.parameters_per_rank.assign(places.size(), 0);
  for (const auto& input : program.inputs) {
    if (input.kind != InputKind::Parameter) {
      continue;
    }
    const auto& sizes = input.value->tensor().sizes;
    summary.parameters += elements(sizes);
    for (size_t i = 0; i < places.size(); ++i) {
      summary.parameters_per_rank[i] += elements(local_sizes(sizes, *input.value->layout, places[i]));
    }
  }
}

} // namespace

Size::Values hints(const Program& program) {
  Size::Values values;
  for (const auto& [name, symbol] : program.symbols) {
    values[name] = symbol.hint.value_or(1);
  }
  return values;
}

int64_t received_bytes(const Program& program, const Node& step) {
  return static_cast<int64_t>(StepCosts(program).of(
      step, [](const Step& of_node, const CostContext& context) { return weft::received_bytes(of_node, context); }));
}

double communication_seconds(const Program& program) {
  const StepCosts costs(program);
  double seconds = 0;
  for (const auto* node = program.graph->first(); node != nullptr; node = node->next()) {
    if (node->step() != nullptr || is_fused_operator(*node)) {
      seconds += costs.of(*node, [](const Step& step, const CostContext& context) { return cost(step, context); });
    }
  }
  return seconds;
}

Summary summarize(const Program& program) {
  TORCH_CHECK_VALUE(program.mesh, "[summarize] a program that tensor_parallel made parallel is required.");
  Summary summary;
  for (const auto kind : {StepKind::AllReduce, StepKind::AllGather, StepKind::ReduceScatter, StepKind::AllToAll}) {
    summary.collectives[std::string(to_string(kind))] = 0;
  }
  for (const auto* node = program.graph->first(); node != nullptr; node = node->next()) {
    ++summary.nodes;
    if (const auto* step = node->step()) {
      if (communicates(step->kind)) {
        ++summary.collectives[std::string(to_string(step->kind))];
        summary.bytes += received_bytes(program, *node);
      }
    } else if (const auto fused = fused_node(*node)) {
      ++summary.collectives[std::string(to_string(fused->is_gather ? StepKind::AllGather : StepKind::ReduceScatter))];
      ++summary.overlapped;
      summary.bytes += received_bytes(program, *node);
    } else if (node->sharding != nullptr && node->sharding->is_fallback) {
      ++summary.fallbacks[target_name(*node)];
    }
  }
  count_parameters(program, summary);
  return summary;
}

std::string Summary::to_json() const {
  constexpr size_t kFew = 64;
  nlohmann::ordered_json json;
  json["nodes"] = nodes;
  json["collectives"] = collectives;
  json["overlapped"] = overlapped;
  json["bytes"] = bytes;
  json["parameters"] = parameters;
  const auto [least, most] = std::minmax_element(parameters_per_rank.begin(), parameters_per_rank.end());
  json["parameters_least"] = parameters_per_rank.empty() ? 0 : *least;
  json["parameters_most"] = parameters_per_rank.empty() ? 0 : *most;
  if (parameters_per_rank.size() <= kFew) {
    json["parameters_per_rank"] = parameters_per_rank;
  }
  json["fallbacks"] = nlohmann::ordered_json::array();
  for (const auto& [op, count] : fallbacks) {
    json["fallbacks"].push_back({{"op", op}, {"count", count}});
  }
  return json.dump();
}

std::string Summary::to_string() const {
  const auto [least, most] = std::minmax_element(parameters_per_rank.begin(), parameters_per_rank.end());
  auto text = "parameters   " + count_text(parameters) + " global, ";
  if (!parameters_per_rank.empty()) {
    text += (*least == *most ? "" : count_text(*least) + " to ") + count_text(*most) + " on a rank\n";
  }
  std::vector<std::string> kinds;
  for (const auto& [name, count] : collectives) {
    if (count != 0) {
      kinds.push_back(c10::str(count, " ", name));
    }
  }
  text += "a call       " +
      (kinds.empty() ? "nothing is communicated"
                     : c10::Join(", ", kinds) +
               (overlapped == 0 ? "" : c10::str(", ", overlapped, " of them overlapping matmuls")) +
               "; a rank receives " + byte_text(bytes)) +
      "\n";
  std::vector<std::string> without_rule;
  for (const auto& [op, count] : fallbacks) {
    without_rule.push_back(count == 1 ? op : c10::str(op, " (", count, " calls)"));
  }
  text += "fallbacks    " +
      (without_rule.empty() ? "none" : c10::Join(", ", without_rule) + ": on replicated tensors, for want of a rule") +
      "\n";
  return text;
}

} // namespace weft::graph
