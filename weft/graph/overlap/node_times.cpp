#include "weft/graph/overlap/node_times.h"

#include "weft/graph/analysis/call_arguments.h"
#include "weft/graph/analysis/effects.h"
#include "weft/graph/analysis/rank_collective.h"
#include "weft/graph/analysis/summary.h"

#include <algorithm>
#include <unordered_map>

namespace weft::graph {

namespace {

/// How the work of a call is counted: every element of the output is a sum over a dim of the input (a matmul) or over
/// the weights of one output channel (a convolution); attention is a pair of matmuls.
enum class WorkKind : uint8_t { Matmul, Convolution, Attention };
struct Work {
  WorkKind kind;
  const char* input; // the tensor whose last dim is summed over, the weight, or the query
  double times = 1;  // the work, as a multiple of that of the forward
};

const Work* find_work(const Node& node) {
  constexpr double kBackward = 2; // one gradient for each of two operands
  static const std::unordered_map<std::string_view, Work> works = {
      {"aten::mm", {WorkKind::Matmul, "self"}},
      {"aten::bmm", {WorkKind::Matmul, "self"}},
      {"aten::matmul", {WorkKind::Matmul, "self"}},
      {"aten::linear", {WorkKind::Matmul, "input"}},
      {"aten::addmm", {WorkKind::Matmul, "mat1"}},
      {"aten::_addmm_activation", {WorkKind::Matmul, "mat1"}},
      {"aten::baddbmm", {WorkKind::Matmul, "batch1"}},
      {"aten::_scaled_mm", {WorkKind::Matmul, "self"}},
      {"aten::_int_mm", {WorkKind::Matmul, "self"}},
      {"aten::convolution", {WorkKind::Convolution, "weight"}},
      {"aten::conv1d", {WorkKind::Convolution, "weight"}},
      {"aten::conv2d", {WorkKind::Convolution, "weight"}},
      {"aten::conv3d", {WorkKind::Convolution, "weight"}},
      {"aten::convolution_backward", {WorkKind::Convolution, "weight", kBackward}},
      {"aten::scaled_dot_product_attention", {WorkKind::Attention, "query"}},
      {"aten::_scaled_dot_product_flash_attention", {WorkKind::Attention, "query"}},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", {WorkKind::Attention, "query"}},
      {"aten::_scaled_dot_product_efficient_attention", {WorkKind::Attention, "query"}},
      {"aten::_scaled_dot_product_cudnn_attention", {WorkKind::Attention, "query"}},
      {"aten::_scaled_dot_product_fused_attention_overrideable", {WorkKind::Attention, "query"}},
      {"aten::_scaled_dot_product_flash_attention_backward", {WorkKind::Attention, "query", kBackward}},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", {WorkKind::Attention, "query", kBackward}},
      {"aten::_scaled_dot_product_efficient_attention_backward", {WorkKind::Attention, "query", kBackward}},
      {"aten::_scaled_dot_product_cudnn_attention_backward", {WorkKind::Attention, "query", kBackward}},
  };
  const auto found = node.op() == nullptr ? works.end() : works.find(node.op()->schema().name());
  return found == works.end() ? nullptr : &found->second;
}

/// The number of ranks that the work of a call is divided over: those along mesh dims that shard an operand or an
/// output.
double ranks_that_divide(const Node& node, const std::optional<DeviceMesh>& mesh) {
  double count = 1;
  const auto is_sharded = [](const Value* value, int64_t m) {
    return value != nullptr && value->layout && (*value->layout)[m].is_shard();
  };
  for (int64_t m = 0; mesh && m < mesh->ndim(); ++m) {
    bool divides =
        std::any_of(node.outputs().begin(), node.outputs().end(), [&](const Value* v) { return is_sharded(v, m); });
    for (size_t i = 0; i < node.operand_count(); ++i) {
      divides = divides || is_sharded(node.operand(i), m);
    }
    count *= divides ? static_cast<double>(mesh->size(m)) : 1;
  }
  return count;
}

} // namespace

NodeTimes::NodeTimes(const Program& program, const Link& link, const Compute& compute)
    : program_(program), link_(link), compute_(compute), hints_(hints(program)) {}

double NodeTimes::size(const Value& value, int64_t dim) const {
  const auto& sizes = value.tensor().sizes;
  const auto at = dim < 0 ? dim + static_cast<int64_t>(sizes.size()) : dim;
  return at < 0 || at >= static_cast<int64_t>(sizes.size()) ? 1 : static_cast<double>(sizes[at].evaluate(hints_));
}

double NodeTimes::elements(const Value& value) const {
  double count = 1;
  for (const auto& size : value.tensor().sizes) {
    count *= static_cast<double>(size.evaluate(hints_));
  }
  return count;
}

double NodeTimes::bytes(const Value& value) const {
  auto held = elements(value) * static_cast<double>(c10::elementSize(value.tensor().dtype));
  for (int64_t m = 0; value.layout && program_.mesh && m < program_.mesh->ndim(); ++m) {
    held /= (*value.layout)[m].is_shard() ? static_cast<double>(program_.mesh->size(m)) : 1;
  }
  return held;
}

double NodeTimes::flops(const Node& node) const {
  const auto* work = find_work(node);
  const auto* input = work == nullptr ? nullptr : CallArguments(node).tensor(work->input);
  if (input == nullptr || node.outputs().empty() || node.output() == nullptr || !node.output()->is_tensor()) {
    return 0;
  }
  double products = 0;
  if (work->kind == WorkKind::Matmul) {
    products = elements(*node.output()) * size(*input, -1);
  } else if (work->kind == WorkKind::Convolution) {
    products = elements(*node.output()) * elements(*input) / std::max(size(*input, 0), 1.0);
  } else {
    const auto* key = CallArguments(node).tensor("key");
    products = key == nullptr ? 0 : 2 * elements(*input) * size(*key, -2);
  }
  return 2 * products * work->times / ranks_that_divide(node, program_.mesh);
}

double NodeTimes::compute_seconds(const Node& node) const {
  const auto computed = flops(node);
  if (computed == 0) {
    return 0;
  }
  double moved = 0;
  for (size_t i = 0; i < node.operand_count(); ++i) {
    moved += node.operand(i)->is_tensor() ? bytes(*node.operand(i)) : 0;
  }
  for (const auto* output : node.outputs()) {
    moved += output != nullptr && output->is_tensor() ? bytes(*output) : 0;
  }
  return compute_.call_seconds + std::max(computed / compute_.flops_per_second, moved / compute_.bytes_per_second);
}

double NodeTimes::collective_seconds(const Node& node) const {
  if (const auto* step = node.step()) {
    if (!weft::communicates(step->kind) || !program_.mesh) {
      return 0;
    }
    std::vector<int64_t> sizes;
    for (const auto& size : node.output()->tensor().sizes) {
      sizes.push_back(size.evaluate(hints_));
    }
    LinkModel links;
    links.links.resize(program_.mesh->ndim(), link_);
    const CostContext context{
        .sizes = sizes,
        .element_bytes = static_cast<int64_t>(c10::elementSize(node.output()->tensor().dtype)),
        .mesh_shape = program_.mesh->shape(),
        .links = links};
    return cost(*step, context);
  }
  if (!starts_collective(node)) {
    return 0;
  }
  double sent = 0;
  for (size_t i = 0; i < node.operand_count(); ++i) {
    sent += node.operand(i)->is_tensor() ? bytes(*node.operand(i)) : 0;
  }
  // Where an operator does not state the number of members, (members - 1) / members is taken to be 1, as for a large
  // group.
  const auto members = static_cast<double>(read_collective(node).members);
  const auto others = members == 0 ? 1 : (members - 1) / members;
  const std::string_view name = node.op()->schema().name();
  const bool gathers = name.starts_with("_c10d_functional::all_gather");
  const bool reduces = name.starts_with("_c10d_functional::all_reduce");
  const auto received = gathers ? sent * std::max(members - 1, 1.0) : sent * others * (reduces ? 2 : 1);
  return link_.latency_seconds + received / link_.bytes_per_second;
}

} // namespace weft::graph
