#include "weft/rules/builders.h"
#include "weft/rules/registry.h"

#include <algorithm>

namespace weft {

namespace {

/// Every output has the dims of the input; the dim that is split must not be sharded.
Rule into_chunks(const OpCall& call, int64_t count) {
  auto order = natural_order(call);
  const auto dim = call.wrapped_dim("dim", call.operand(0).dim());
  order[dim] = -1;
  auto rule = with_unsharded(rearranged(call, order), {dim});
  rule.outputs.resize(count, Rule::Dims(rule.outputs[0]));
  return rule;
}

/// Chunks of equal size may be sharded themselves. Every rank must hold at least one element, because an empty tensor
/// is split into one chunk.
Rule into_equal_chunks(const OpCall& call, int64_t count) {
  auto rule = rearranged(call, natural_order(call));
  const auto dim = call.wrapped_dim("dim", call.operand(0).dim());
  const auto inside = rule.inputs[0][dim][0];
  const auto chunk = rule.add_factor(count);
  rule.sizes[inside] /= count;
  rule.filled.push_back(inside);
  rule.unsharded.push_back(chunk);
  rule.inputs[0][dim] = {chunk, inside};
  rule.outputs.resize(count, Rule::Dims(rule.outputs[0]));
  return rule;
}

int64_t split_size(const OpCall& call) {
  return call.operand(0).sizes[call.wrapped_dim("dim", call.operand(0).dim())];
}

/// The number of chunks of the given size that hold so many elements.
int64_t count_of(int64_t elements, int64_t size) {
  return (elements + size - 1) / size;
}

Rule split_rule(const OpCall& call) {
  if (call.schema().overload_name() == "sizes") {
    return into_chunks(call, static_cast<int64_t>(call.integers("split_size").size()));
  }
  const auto size = split_size(call);
  const auto step = std::max<int64_t>(call.integer("split_size", 1), 1);
  const auto chunks = std::max<int64_t>(count_of(size, step), 1);
  if (size != chunks * step) {
    return into_chunks(call, chunks);
  }
  auto rule = into_equal_chunks(call, chunks);
  const auto inside = rule.inputs[0][call.wrapped_dim("dim", call.operand(0).dim())][1];
  rule.size_arguments.push_back({"split_size", {step}, {{inside}}});
  return rule;
}

Rule split_with_sizes_rule(const OpCall& call) {
  return into_chunks(call, static_cast<int64_t>(call.integers("split_sizes").size()));
}

/// Chunks of size ceil(size / chunks); there are fewer than asked for if the last ones would be empty.
std::optional<Rule> chunk_rule(const OpCall& call) {
  const auto size = split_size(call);
  const auto chunks = call.integer("chunks");
  if (chunks < 1) {
    return std::nullopt;
  }
  if (size % chunks == 0) {
    return size == 0 ? into_chunks(call, chunks) : into_equal_chunks(call, chunks);
  }
  return into_chunks(call, count_of(size, count_of(size, chunks)));
}

/// Splits into `sections` chunks, the first ones longer by one if the size is not divisible, or at the given indices.
std::optional<Rule> tensor_split_rule(const OpCall& call) {
  if (call.has("indices")) {
    return into_chunks(call, static_cast<int64_t>(call.integers("indices").size()) + 1);
  }
  const auto sections = call.integer("sections");
  if (sections < 1) {
    return std::nullopt; // the sections are given as a tensor
  }
  const auto size = split_size(call);
  return size > 0 && size % sections == 0 ? into_equal_chunks(call, sections) : into_chunks(call, sections);
}

} // namespace

void add_splitting_rules(RuleRegistry& registry) {
  registry.add({"split", "split_copy", "unsafe_split"}, of_ndim(1, split_rule));
  registry.add(
      {"split_with_sizes", "split_with_sizes_copy", "unsafe_split_with_sizes"}, of_ndim(1, split_with_sizes_rule));
  registry.add({"chunk", "unsafe_chunk"}, of_ndim(1, chunk_rule));
  registry.add({"tensor_split"}, of_ndim(1, tensor_split_rule));
}

} // namespace weft
